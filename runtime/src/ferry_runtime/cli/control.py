"""How `ferry drain` reaches the server of its container: an abstract Unix socket.

No file is needed, so it works with a read-only root file system; only processes of the same user
in the same network namespace are heard (unix(7), "Abstract sockets" and SO_PEERCRED).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections.abc import Callable

logger = logging.getLogger(__name__)

LEAVE = b"leave\n"
LEAVING = b"leaving\n"
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_TIMEOUT_SECONDS = 5.0


def control_address(port: int) -> str:
    return f"\0ferry-control-{port}"


class ControlServer:
    """Calls ``leave`` when asked to. Opened beside the HTTP port that it is named after."""

    def __init__(self, port: int, leave: Callable[[], None]) -> None:
        self._port = port
        self._leave = leave
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Without it `ferry drain` does not work, and all else does: failing is only logged."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(control_address(self._port))
            self._server = await asyncio.start_unix_server(self._answer, sock=listener)
        except OSError:
            listener.close()
            logger.warning("ferry drain will not reach this server: its control socket cannot be opened")

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if _user(writer) not in (os.getuid(), 0):
                return
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                if await reader.readline() == LEAVE:
                    self._leave()
                    writer.write(LEAVING)
                    await writer.drain()
        except (OSError, TimeoutError):
            logger.debug("a control connection ended early")
        finally:
            writer.close()


def ask_to_leave(port: int) -> bool:
    """Tell the server to leave. False when there is none."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_TIMEOUT_SECONDS)
        connection.connect(control_address(port))
        connection.sendall(LEAVE)
        return connection.recv(len(LEAVING)) == LEAVING
    return False


def _user(writer: asyncio.StreamWriter) -> int:
    peer = writer.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])
