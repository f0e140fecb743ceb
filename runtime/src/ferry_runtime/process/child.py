"""The parent's end: one life of a child process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ferry_runtime.process.framing import GOODBYE, FrameBuffer, encode_frame

logger = logging.getLogger(__name__)

_LOG_LINE = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) ([\w.]+): (.*)")
_LONGEST_LOG_LINE = 4000

# A child that closed its channel has nothing left to say: these bound how long its exit, and what
# it wrote last, are waited for.
_LINGER_SECONDS = 2.0


class ChildGone(Exception):
    """The child has ended, or has closed its channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildCommand:
    """``python -m module``. ``name`` is for logs. ``env`` is added to this process's own."""

    name: str
    module: str
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exit:
    """How a life ended. ``returncode`` is negative for a signal, as in subprocess."""

    returncode: int

    @property
    def reason(self) -> str:
        if self.returncode >= 0:
            return f"it ended with exit code {self.returncode}"
        number = -self.returncode
        hint = " (out of memory?)" if number == signal.SIGKILL else ""
        return f"it was killed by signal {number} ({signal.strsignal(number)}){hint}"


class Child:
    """Use `Child.start`. Every callback runs in the event loop."""

    def __init__(
        self, name: str, process: asyncio.subprocess.Process, transport: asyncio.Transport, link: _Link
    ) -> None:
        self.name = name
        self._process = process
        self._transport = transport
        self._link = link
        self._exit = asyncio.create_task(self._watch(), name=f"{name}-exit")

    @classmethod
    async def start(cls, command: ChildCommand, on_frame: Callable[[bytes], None]) -> Child:
        """Start the process. ``on_frame`` gets each frame's payload, in order.

        Raises OSError when the process cannot be started.
        """
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            link = _Link(on_frame)
            transport, _ = await loop.create_connection(lambda: link, sock=ours)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        try:
            # -P: a file in the working directory must not stand in for a module.
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", command.module),
                *(f"--channel={theirs.fileno()}", f"--parent={os.getpid()}"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                # Ctrl-C, or a SIGTERM to the process group, is for the parent, which may have
                # requests to finish first; that its death ends the child does not depend on it.
                start_new_session=True,
                env={**os.environ, **command.env},
            )
        except BaseException:
            transport.abort()
            raise
        finally:
            theirs.close()
        return cls(command.name, process, transport, link)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: msgspec.Struct) -> None:
        """Never blocks. Raises ChildGone."""
        if self._transport.is_closing() or self._exit.done():
            raise ChildGone(f"the {self.name} process has ended")
        self._transport.write(encode_frame(message))

    async def wait(self) -> Exit:
        """Until the process has ended and everything that it sent has been handed over."""
        return await asyncio.shield(self._exit)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    async def stop(self, grace_seconds: float = 5.0) -> Exit:
        """Ask it to finish, then SIGTERM, then SIGKILL; each has ``grace_seconds``."""
        try:
            if not self._transport.is_closing():
                self._transport.write(GOODBYE)
            for stronger in (signal.SIGTERM, signal.SIGKILL):
                if await self._ends_within(grace_seconds):
                    break
                logger.warning("the %s process does not end: sending %s", self.name, stronger.name)
                self._signal(stronger)
            return await self.wait()
        finally:  # also when stop() itself is cancelled
            self.kill()

    async def _ends_within(self, seconds: float) -> bool:
        done, _ = await asyncio.wait({self._exit}, timeout=seconds)
        return bool(done)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _watch(self) -> Exit:
        """Reap the process, after its output and its last frames."""
        output = asyncio.create_task(_forward(self._process.stdout, self.name))
        ended = asyncio.create_task(self._process.wait())
        either: set[asyncio.Future[Any]] = {self._link.closed, ended}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(either, timeout=_LINGER_SECONDS)
            if not ended.done():
                self.kill()
            returncode = await ended
            await asyncio.wait({output}, timeout=_LINGER_SECONDS)
            return Exit(returncode)
        finally:
            self.kill()
            output.cancel()
            self._transport.abort()


class _Link(asyncio.Protocol):
    def __init__(self, on_frame: Callable[[bytes], None]) -> None:
        self._frames = FrameBuffer()
        self._on_frame = on_frame
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._on_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if not self.closed.done():
            self.closed.set_result(None)


async def _forward(output: asyncio.StreamReader | None, name: str) -> None:
    """Log what the child writes, line by line, under the level and logger that it names."""
    assert output is not None  # noqa: S101 - stdout=PIPE
    level, origin, rest = logging.INFO, f"{__name__}.{name}", b""
    while data := await output.read(65536):
        *lines, rest = (rest + data).split(b"\n")
        rest = rest[:_LONGEST_LOG_LINE]
        for line in lines:
            level, origin = _log(line, level, origin)
    if rest:
        _log(rest, level, origin)


def _log(line: bytes, level: int, origin: str) -> tuple[int, str]:
    text = line[:_LONGEST_LOG_LINE].decode(errors="replace").rstrip()
    if match := _LOG_LINE.fullmatch(text):
        level, origin, text = getattr(logging, match[1]), match[2], match[3]
    if text:  # a line without a level continues the one before: a traceback
        logging.getLogger(origin).log(level, "%s", text)
    return level, origin
