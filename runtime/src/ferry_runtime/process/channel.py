"""The child's end: a blocking channel to the parent, and dying with it."""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import socket
import sys
import threading
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, cast

import msgspec

from ferry_runtime.process.framing import HEADER, encode_frame, frame_length

LOG_FORMAT = "%(levelname)s %(name)s: %(message)s"  # child.py reads level and name back

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

T = TypeVar("T")


class Channel(Generic[T]):
    """Frames to and from the parent. Sending is safe from every thread."""

    def __init__(self, connection: socket.socket, messages: Any) -> None:
        """``messages`` is the struct, or the union of tagged structs, that the parent sends."""
        self._socket = connection
        self._reader = connection.makefile("rb")
        self._decoder = msgspec.msgpack.Decoder(messages)
        self._sending = threading.Lock()

    def send(self, message: msgspec.Struct) -> None:
        """Blocks while the parent does not read. Raises OSError when it has gone."""
        frame = encode_frame(message)
        with self._sending:
            self._socket.sendall(frame)

    def receive(self) -> T | None:
        """The next message; None when the parent said goodbye.

        Raises EOFError when the parent has gone without one.
        """
        length = frame_length(self._exactly(HEADER.size))
        return cast("T", self._decoder.decode(self._exactly(length))) if length else None

    def read_into(self, inbox: SimpleQueue[T | None]) -> None:
        """Feed ``inbox`` from a thread of its own; None, put once, is the parent's goodbye.

        A parent that goes without goodbye ends this process there and then, whatever the other
        threads are doing.
        """

        def read() -> None:
            try:
                while (message := self.receive()) is not None:
                    inbox.put(message)
            except (EOFError, OSError):
                os._exit(os.EX_IOERR)
            inbox.put(None)

        threading.Thread(target=read, name="channel-reader", daemon=True).start()

    def close(self) -> None:
        """Not while another thread receives."""
        self._reader.close()
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data = self._reader.read(size)
        if len(data) < size:
            raise EOFError("the parent closed the channel")
        return data


def connect(messages: Any) -> Channel[Any]:
    """Become the child of the Supervisor that started this process.

    Logging goes to stderr, which the parent forwards.
    """
    parser = argparse.ArgumentParser(description="Started by Ferry; not meant to be run by hand.")
    parser.add_argument("--channel", type=int, required=True, help="file descriptor of the socket")
    parser.add_argument("--parent", type=int, required=True, help="process id of the parent")
    options = parser.parse_args()
    die_with_parent(options.parent)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LOG_FORMAT, force=True)
    connection = socket.socket(fileno=options.channel)
    connection.set_inheritable(False)
    return Channel(connection, messages)


def die_with_parent(parent: int) -> None:
    """SIGKILL this process when the thread that started it ends (prctl(2), PR_SET_PDEATHSIG).

    Elsewhere than on Linux the closed socket alone tells that the parent has gone.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before prctl: no signal will come
        os._exit(os.EX_IOERR)
