"""One generation for many identical requests (single-flight), per process.

A flight owns the generation: the request that opened it may leave without ending it while others
still listen. It keeps a log of deltas that every listener reads at its own pace, so a slow reader
holds nobody back. When the generation fails in a way that a retry may mend, the longest-waiting
listener opens the next one with its own request; nobody else notices.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from ferry_runtime.cache.contract import Reprioritised
from ferry_runtime.cache.tasks import end
from ferry_runtime.errors import DeadlineExceeded, Overloaded
from ferry_runtime.generation import Answer, CacheInfo, ChoiceDelta, GenerationRequest

# Opens the answer for one request: looks it up, or generates. May raise what a submit raises.
Open = Callable[[GenerationRequest], Awaitable[Answer]]
Finished = Callable[[GenerationRequest, Answer, list[ChoiceDelta]], None]


MOST_ATTEMPTS = 3  # of a generation that fails by itself: a poisonous prompt must not run for ever


class Phase(Enum):
    OPENING = auto()
    RUNNING = auto()
    FINISHED = auto()
    FAILED = auto()


@dataclass(slots=True)
class Listener:
    """A request that reads the flight. ``error``: the generation that it led failed with it."""

    request: GenerationRequest
    error: Exception | None = None


class Flight:
    """Log, phase and listeners of one generation. Single-threaded: lives on the event loop."""

    def __init__(self, open_answer: Open, on_finished: Finished, on_empty: Callable[[Flight], None]) -> None:
        self._open = open_answer
        self._on_finished = on_finished
        self._on_empty = on_empty
        self._listeners: list[Listener] = []
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._answer: Answer | None = None
        self.leader: Listener | None = None
        self.phase = Phase.OPENING
        self.log: list[ChoiceDelta] = []
        self.attempt = 0  # a new generation starts a new log
        # Since when this attempt's start is waited for; None: each listener waits since its arrival.
        self.since: float | None = None
        self.error: Exception | None = None

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    @property
    def info(self) -> CacheInfo:
        return self._answer.cache if self._answer is not None else CacheInfo()

    def join(self, request: GenerationRequest) -> Listener:
        listener = Listener(request)
        self._listeners.append(listener)
        if self.leader is None:
            self._lead(listener)
        elif request.priority < self.leader.request.priority:
            _lend(self._answer, request.priority)
        return listener

    async def leave(self, listener: Listener) -> None:
        """The last one out ends the generation."""
        if listener not in self._listeners:
            return
        self._listeners.remove(listener)
        if self._listeners or self.phase is Phase.FINISHED:
            return
        self._on_empty(self)
        await end(self._task)

    def retry(self, failed_attempt: int, listener: Listener) -> bool:
        """Make ``listener`` the leader of a new generation, unless another already is.

        False when the flight is over for good. Safe to call by every listener of a failed attempt.
        """
        if self.attempt != failed_attempt:
            return True
        if self.phase is not Phase.FAILED or listener not in self._listeners:
            return False
        if self.attempt >= MOST_ATTEMPTS and not isinstance(self.error, DeadlineExceeded | Overloaded):
            return False
        self.attempt += 1
        if self.log:
            # Nobody was waiting for a slot while the failed attempt was generating. One that never
            # got a slot has cost its followers their own time in the queue, as it would without it.
            self.since = time.monotonic()
        if self.since is not None:
            listener.request = replace(
                listener.request, queued_since=max(self.since, listener.request.arrival)
            )
        self._lead(listener)
        return True

    async def wait(self) -> None:
        """Until the log, the phase or the attempt has changed."""
        await self._changed.wait()

    def _lead(self, listener: Listener) -> None:
        self.leader, self.phase, self.log, self.error = listener, Phase.OPENING, [], None
        self._answer = None
        self._task = asyncio.create_task(self._run(listener.request))

    async def _run(self, request: GenerationRequest) -> None:
        log = self.log
        answer: Answer | None = None
        try:
            answer = self._answer = await self._open(request)
            best = min((listener.request.priority for listener in self._listeners), default=request.priority)
            if best < request.priority:
                _lend(answer, best)
            self._advance(Phase.RUNNING)
            async for item in answer:
                log.append(item)
                self._wake()
            self._on_finished(request, answer, log)
            self._advance(Phase.FINISHED)
        except asyncio.CancelledError:
            self.phase = Phase.FAILED
            raise
        except Exception as error:  # noqa: BLE001 - handed to every listener, who raises it
            self.error = error
            if self.leader is not None:
                self.leader.error = error
            self._advance(Phase.FAILED)
        finally:
            if answer is not None:
                await answer.aclose()

    def _advance(self, phase: Phase) -> None:
        self.phase = phase
        if phase is Phase.FINISHED:
            self._on_empty(self)
        self._wake()

    def _wake(self) -> None:
        waiters, self._changed = self._changed, asyncio.Event()
        waiters.set()


def _lend(answer: object, priority: int) -> None:
    if isinstance(answer, Reprioritised):
        answer.raise_priority(priority)
