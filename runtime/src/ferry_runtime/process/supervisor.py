"""Keep one child process alive: start, watch, restart with back-off, give up, stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any, Protocol, TypeVar

import msgspec

from ferry_runtime.process.backoff import Backoff
from ferry_runtime.process.child import Child, ChildCommand, ChildGone, Exit

logger = logging.getLogger(__name__)

M_contra = TypeVar("M_contra", contravariant=True)


class Handler(Protocol[M_contra]):
    """What the owner of a child does. Called in the event loop; must not block."""

    def started(self) -> None:
        """A new life began: the place to send its first messages."""
        ...

    def received(self, message: M_contra) -> None: ...

    def exited(self, end: Exit, restart_in: float | None) -> None:
        """A life ended. The next one starts after ``restart_in`` seconds; None: there is none."""
        ...


class Supervisor:
    def __init__(
        self, command: ChildCommand, handler: Handler[Any], messages: Any, *, backoff: Backoff | None = None
    ) -> None:
        """``messages`` is the struct, or the union of tagged structs, that the child sends."""
        self._command = command
        self._handler = handler
        self._decoder = msgspec.msgpack.Decoder(messages)
        self._backoff = backoff or Backoff()
        self._child: Child | None = None
        self._healthy_since: float | None = None
        self._last_life = asyncio.Event()
        self._lives = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """None between two lives."""
        return self._child.pid if self._child else None

    @property
    def lives(self) -> int:
        """How often the child was started."""
        return self._lives

    def start(self) -> None:
        """Begin to supervise. Needs a running event loop."""
        if self._task is None:
            self._task = asyncio.create_task(self._supervise(), name=f"{self._command.name}-supervisor")

    def send(self, message: msgspec.Struct) -> None:
        """Never blocks. Raises ChildGone when no child runs."""
        if self._child is None:
            raise ChildGone(f"the {self._command.name} process is not running")
        self._child.send(message)

    def healthy(self) -> None:
        """This life does its work now; if it keeps on, earlier failures are forgotten."""
        self._healthy_since = time.monotonic()

    def give_up(self) -> None:
        """This life is the last one: starting again would not help."""
        self._last_life.set()

    def kill(self) -> None:
        """End a life that hangs; the next one follows as after any other death."""
        if self._child is not None:
            self._child.kill()

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """End the child for good. Idempotent; bounded by three times ``grace_seconds``."""
        self._last_life.set()
        if self._task is None:
            return
        if self._child is not None:
            await self._child.stop(grace_seconds)
        await self._task

    async def _supervise(self) -> None:
        failures = 0
        while True:
            end = await self._live()
            up = time.monotonic() - self._healthy_since if self._healthy_since is not None else 0.0
            failures = self._backoff.failures_after(failures, up)
            delay = None if self._last_life.is_set() else self._backoff.delay(failures)
            logger.log(
                logging.INFO if self._last_life.is_set() else logging.ERROR,
                *("the %s process ended: %s; %s", self._command.name, end.reason),
                "not started again" if delay is None else f"next start in {delay:g} s",
            )
            self._handler.exited(end, delay)
            if delay is None or await self._stopped_within(delay):
                return

    async def _live(self) -> Exit:
        """One life, from start to exit."""
        self._healthy_since = None
        self._lives += 1
        try:
            child = await Child.start(self._command, self._received)
        except OSError:
            logger.exception("the %s process could not be started", self._command.name)
            return Exit(1)
        self._child = child
        try:
            if self._last_life.is_set():  # stopped while starting
                return await child.stop()
            with contextlib.suppress(ChildGone):
                self._handler.started()
            return await child.wait()
        finally:
            self._child = None

    def _received(self, frame: bytes) -> None:
        self._handler.received(self._decoder.decode(frame))

    async def _stopped_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._last_life.wait(), seconds)
        return self._last_life.is_set()
