"""Drives the scheduler's core with the event loop's clock and hands sequences to the backend."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from ferry_runtime.engine.protocol import (
    Backend,
    Delta,
    DeltaStream,
    EngineState,
    EngineStats,
    GenerateRequest,
)
from ferry_runtime.errors import (
    DeadlineExceeded,
    EngineError,
    EngineNotReady,
    FerryError,
    InvalidRequest,
    Overloaded,
    RequestFailed,
)
from ferry_runtime.generation import GenerationRequest
from ferry_runtime.scheduling.admission import Refusal, RejectReason
from ferry_runtime.scheduling.answer import ScheduledAnswer, Timeline
from ferry_runtime.scheduling.core import SchedulerCore
from ferry_runtime.scheduling.cost import OutputEstimator
from ferry_runtime.scheduling.job import Action, Job, Pause, Start
from ferry_runtime.scheduling.seeds import sampling_of

_log = logging.getLogger(__name__)

# How often a restarting engine is asked whether it is back, while requests wait for it.
_RESTART_POLL_SECONDS = 0.05


class Observer(Protocol):
    """What the scheduler tells about its work; implemented by `metrics.Metrics`."""

    def refused(self, reason: RejectReason) -> None: ...

    def started(self, job: Job, waited: float) -> None: ...

    def stepped(self, stats: EngineStats) -> None:
        """Told once per step at least; the same step may be told again."""
        ...

    def generated(self, job: Job, delta: Delta, since_last: float | None, since_arrival: float) -> None:
        """One delta of one sequence. ``since_last``: seconds since this sequence's previous
        delta with tokens; None on its first."""
        ...

    def sequence_ended(self, job: Job, generated: int) -> None:
        """A sequence ended by itself, after ``generated`` tokens."""
        ...


@runtime_checkable
class Pausable(Protocol):
    """A backend that can take a request out of its memory and let it go on later, with the same
    tokens as without. Its stream stays open and silent meanwhile."""

    def pause(self, request_id: str) -> None: ...

    def resume(self, request_id: str) -> None: ...


class Scheduler:
    """Everything between an admitted request and the engine.

    ``submit`` is synchronous: two calls in the same instant see each other's effect, which is
    what makes the limits exact in a burst.
    """

    def __init__(
        self,
        backend: Backend,
        core: SchedulerCore,
        observer: Observer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.core = core
        self._backend = backend
        self._observer = observer
        self._clock = clock
        self._estimator = OutputEstimator()
        self._step = EngineStats()
        self._requests: dict[str, tuple[GenerationRequest, ScheduledAnswer]] = {}
        self._pumps: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(self, request: GenerationRequest) -> ScheduledAnswer:
        """Admit or refuse at once.

        Raises EngineNotReady, Overloaded, DeadlineExceeded, InvalidRequest.
        """
        now = self._clock()
        if self._backend.state is not EngineState.READY:
            self._observer.refused(RejectReason.NOT_READY)
            raise EngineNotReady("The engine is loading or being restarted. Try again shortly.")
        job = self._job(request)
        if job.queue_deadline <= now:
            self._observer.refused(RejectReason.DEADLINE)
            raise DeadlineExceeded("The request's time ran out before it could be queued.")
        refused = self.core.admit(job, now)
        if refused is not None:
            self._observer.refused(refused.reason)
            raise self._error_of(refused, now)
        answer = ScheduledAnswer(
            choices=request.n,
            timeline=Timeline(request.arrival),
            cancel=lambda: self._end(job.id),
            raise_priority=lambda priority: self.core.raise_priority(job.id, priority),
        )
        self._requests[job.id] = (request, answer)
        self._idle.clear()
        self.wake()
        return answer

    def wake(self) -> None:
        """Do what is due, and set the alarm for what is not yet."""
        now = self._clock()
        for expired in self.core.expire(now):
            self._fail(expired.job.id, DeadlineExceeded(_expiry(expired.started)))
        state = self._backend.state
        if state is EngineState.READY:
            for action in self.core.release(now):
                self._carry_out(action, now)
        elif state in (EngineState.FAILED, EngineState.STOPPED):
            self.fail_all(EngineNotReady("The engine has stopped and could not be restarted."))
        self._set_alarm(now, ready=state is EngineState.READY)

    def fail_all(self, error: FerryError) -> None:
        """End every open request, queued or running, with an error that its reader will see."""
        for job_id in list(self._requests):
            self._fail(job_id, error)

    async def wait_idle(self) -> None:
        """Until no request is open and the engine has let go of every sequence."""
        await self._idle.wait()

    async def stop(self) -> None:
        """End what is open and wait until the engine has let go of it. Idempotent."""
        self.fail_all(EngineNotReady("The server has stopped."))
        await asyncio.gather(*self._pumps.values(), return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()

    def _job(self, request: GenerationRequest) -> Job:
        params, prompt = request.sampling, len(request.prompt_token_ids)
        queued_since = request.arrival if request.queued_since is None else request.queued_since
        queued_until = queued_since + self.core.limits.timeout
        deadline = None if request.timeout is None else request.arrival + request.timeout
        return Job(
            id=request.id,
            arrival=request.arrival,
            queue_deadline=queued_until if deadline is None else min(queued_until, deadline),
            deadline=deadline,
            tenant=request.tenant,
            priority=request.priority,
            sequences=request.n,
            prompt_tokens=prompt,
            expected_tokens=self._estimator.expect(params.max_tokens, params.min_tokens),
            capacity_tokens=prompt + params.max_tokens,
        )

    def _error_of(self, refused: Refusal, now: float) -> FerryError:
        if refused.reason is RejectReason.KV_MEMORY:
            return InvalidRequest(
                "The prompt and max_tokens together exceed the engine's memory. Ask for fewer tokens.",
                param="max_tokens",
            )
        if refused.per_tenant:
            message = "Too many of your requests are waiting. Try again later."
        elif refused.reason is RejectReason.WAIT:
            message = "The server could not start this request before its time runs out. Try again later."
        else:
            message = "The server's queue is full. Try again later."
        return Overloaded(message, self.core.retry_after(now), per_tenant=refused.per_tenant)

    def _carry_out(self, action: Action, now: float) -> None:
        if isinstance(action, Start):
            self._start(action, now)
            return
        if not isinstance(self._backend, Pausable):
            raise TypeError("this backend cannot pause, so its room must not be made with can_pause")
        if isinstance(action, Pause):
            self._backend.pause(_sequence_id(action.job_id, action.index))
        else:
            self._backend.resume(_sequence_id(action.job_id, action.index))

    def _start(self, start: Start, now: float) -> None:
        entry = self._requests.get(start.job.id)
        if entry is None:  # another choice of it could not even be submitted
            self.core.finished(start.job.id, start.index, now)
            return
        request, answer = entry
        if answer.timeline.started is None:
            answer.timeline.started = now
            self._observer.started(start.job, now - start.job.arrival)
        sequence = GenerateRequest(
            request_id=_sequence_id(request.id, start.index),
            prompt_token_ids=request.prompt_token_ids,
            sampling=sampling_of(request.sampling, start.index),
            headers=dict(request.trace_headers),
        )
        try:
            # Submitted here, not when the task first runs, so that the engine gets them in order.
            stream = self._backend.generate(sequence)
        except EngineError as error:
            self.core.finished(request.id, start.index, now)
            self._fail(request.id, error)
            return
        self._pumps[request.id, start.index] = asyncio.create_task(self._pump(start, request, answer, stream))

    async def _pump(
        self, start: Start, request: GenerationRequest, answer: ScheduledAnswer, stream: DeltaStream
    ) -> None:
        """Move one sequence's deltas to its reader; never waits for the reader."""
        try:
            await self._forward(start, request, answer, stream)
        except EngineError as error:
            answer.fail(error)
        except Exception as error:  # noqa: BLE001 - one broken sequence must not take the server with it
            # Its kind only: a message may hold the prompt.
            kind = type(error).__name__
            _log.error("a sequence failed outside the engine: %s", kind, extra={"request_id": request.id})
            answer.fail(RequestFailed("The server failed on this request."))
        finally:
            await stream.aclose()
            del self._pumps[request.id, start.index]
            self.core.finished(request.id, start.index, self._clock())
            if answer.done:
                self._end(request.id)
            self.wake()

    async def _forward(
        self, start: Start, request: GenerationRequest, answer: ScheduledAnswer, stream: DeltaStream
    ) -> None:
        generated, last, started = 0, None, self._clock()
        async for delta in stream:
            now = self._clock()
            self._look_at_step()
            tokens = len(delta.token_ids)
            if tokens:
                computed = tokens if last is not None else tokens + len(request.prompt_token_ids)
                self.core.progress(request.id, start.index, computed)
                if answer.timeline.first_token is None:
                    answer.timeline.first_token = now
                if last is None:
                    self.core.shaping.first_token(now - started)
                since = None if last is None else now - last
                self._observer.generated(start.job, delta, since, now - request.arrival)
                generated, last = generated + tokens, now
            answer.push(start.index, delta)
            if delta.finish_reason is not None:
                self._estimator.learn(request.sampling.max_tokens, generated)
                self._observer.sequence_ended(start.job, generated)
                return
        raise RequestFailed("The engine ended this request without saying why.")

    def _look_at_step(self) -> None:
        """Every delta of a step finds the same statistics, which count once."""
        stats, before = self._backend.stats, self._step
        if stats.steps == before.steps:
            return
        self._step = stats
        self._observer.stepped(stats)
        if stats.prefill_tokens == before.prefill_tokens and stats.decode_rows:
            self.core.shaping.stepped(stats.decode_rows, stats.step_seconds)

    def _fail(self, job_id: str, error: FerryError) -> None:
        _, answer = self._requests[job_id]
        answer.fail(error)
        self._end(job_id)

    def _end(self, job_id: str) -> None:
        """Out of the queue, out of the slots: a sequence's pump closes its stream, which cancels."""
        self._requests.pop(job_id, None)
        for index in self.core.cancel(job_id, self._clock()):
            pump = self._pumps.get((job_id, index))
            if pump is not None:  # else its start is still to be carried out, and finds nothing to do
                # Not at once: a task that is cancelled before its first step never runs its `finally`.
                asyncio.get_running_loop().call_soon(pump.cancel)
        if not self._requests and not self._pumps:
            self._idle.set()

    def _set_alarm(self, now: float, *, ready: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.core.next_event()
        if due is None:
            return
        delay = max(due - now, 0.0) if ready else _RESTART_POLL_SECONDS
        self._timer = asyncio.get_running_loop().call_later(delay, self.wake)


def _sequence_id(job_id: str, index: int) -> str:
    return f"{job_id}-{index}"


def _expiry(started: bool) -> str:
    if started:
        return "The request's timeout ran out before its answer was complete."
    return "The request's time ran out while it was waiting for a slot."
