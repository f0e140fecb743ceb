"""The scheduler without a clock, a loop or an engine: every method is told the time.

The asyncio driver (`scheduler.py`) and the simulations in the tests run this same code.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace

from ferry_runtime.scheduling.admission import (
    QueueLimits,
    Refusal,
    RejectReason,
    occupancy,
    refusal,
)
from ferry_runtime.scheduling.job import Expired, Job, Start
from ferry_runtime.scheduling.meter import RateMeter, ReturnLine
from ferry_runtime.scheduling.queue import Handicap, WaitingQueue, by_score
from ferry_runtime.scheduling.score import Load, ageing_seconds
from ferry_runtime.scheduling.shape import KvMemory, opens_at
from ferry_runtime.scheduling.shaping import Shaping

# Assumed until measured: a small model on two cores.
_PRIOR_TOKENS_PER_SECOND = 100.0
_PRIOR_STARTS_PER_SECOND = 1.0

# How many requests behind one that does not fit in KV memory are tried in its place.
_BACKFILL = 8


@dataclass(slots=True)
class _Open:
    """A job between admission and its last sequence's end."""

    job: Job
    admitted: float
    started: int = 0  # sequences handed to the engine so far
    running: set[int] = field(default_factory=set)
    cancelled: bool = False


class SchedulerCore:
    """Admission, order, batch window, deadlines and what is in the engine."""

    def __init__(
        self,
        limits: QueueLimits,
        shaping: Shaping,
        kv: KvMemory | None = None,
        policy: Handicap = by_score,
    ) -> None:
        """``limits`` may be replaced at any time. ``kv``: None for engines that manage their own
        memory."""
        self.limits = limits
        self.shaping = shaping
        self.shape = shaping.shape(0.0, 0.0)
        self.kv = kv
        self._queue = WaitingQueue(policy)
        self._open: dict[str, _Open] = {}
        self._tenants: dict[str, int] = {}
        self._deadlines: list[tuple[float, int, str]] = []
        self._order = 0
        self._waiting_tokens = 0.0
        self._waiting_sequences = 0
        self._submitted = 0
        self._blocks = 0
        self._tokens = RateMeter(_PRIOR_TOKENS_PER_SECOND)
        self._starts = RateMeter(_PRIOR_STARTS_PER_SECOND)
        self._line = ReturnLine()
        self._now: float | None = None

    # What metrics and drain ask.

    @property
    def waiting(self) -> int:
        """Requests of which no sequence has started, and sequences beyond the engine's slots."""
        return len(self._queue) + max(0, self._submitted - self.shape.slots)

    @property
    def waiting_tokens(self) -> float:
        return self._waiting_tokens

    @property
    def submitted(self) -> int:
        """Sequences in the engine."""
        return self._submitted

    @property
    def open(self) -> int:
        """Requests between admission and their end."""
        return len(self._open)

    @property
    def load(self) -> Load:
        return Load(len(self._queue), self._tokens.rate)

    def fit(self, shaping: Shaping, kv: KvMemory | None) -> None:
        """Take over what the engine turned out to have once it was loaded."""
        self.shaping = shaping
        self.shape = shaping.shape(0.0, 0.0)
        self.kv = kv

    # Requests come, change and go.

    def admit(self, job: Job, now: float) -> Refusal | None:
        """Take a job, or say why not. O(log n) on average."""
        self._pass_time(now)
        if self.kv is not None and self.kv.needed(job.capacity_tokens) > self.kv.blocks:
            return Refusal(RejectReason.KV_MEMORY)
        held = occupancy(
            self._queue, self._waiting_tokens, len(self._queue), self.shape.slots, self._submitted
        )
        refused = refusal(job, held, self.limits, self._tenants)
        if refused is not None:
            return refused
        self.shaping.arrived(now)
        self._open[job.id] = _Open(job, now)
        self._tenants[job.tenant] = self._tenants.get(job.tenant, 0) + 1
        self._waiting_tokens += job.cost
        self._waiting_sequences += job.sequences
        self._queue.push(job)
        self._watch(job.queue_deadline, job.id)
        self._follow_load()
        return None

    def retry_after(self, now: float) -> float:
        """Seconds for a client that was just refused."""
        return self._line.retry_after(now, self._starts.rate, self.limits.timeout)

    def raise_priority(self, job_id: str, priority: int) -> None:
        """More urgent, if it still waits and is not so already. Its age stays."""
        if job_id in self._queue and priority < self._open[job_id].job.priority:
            job = replace(self._open[job_id].job, priority=priority)
            self._open[job_id].job = job
            self._queue.replace(job)

    def cancel(self, job_id: str, now: float) -> tuple[int, ...]:
        """Forget a job. Returns its running choices, which the caller must stop and then report
        as `finished`."""
        self._pass_time(now)
        state = self._open.get(job_id)
        if state is None:
            return ()
        self._leave_queue(state)
        state.cancelled = True
        if not state.running:
            del self._open[job_id]
        return tuple(state.running)

    def progress(self, tokens: int) -> None:
        """Tokens that the engine got done, prompt or generated: the measured speed."""
        if self._saturated:
            self._tokens.add(tokens)

    def finished(self, job_id: str, index: int, now: float) -> None:
        """A sequence has left the engine, however it ended."""
        self._pass_time(now)
        state = self._open.get(job_id)
        if state is None or index not in state.running:
            return
        state.running.remove(index)
        self._submitted -= 1
        self._blocks -= self._needed(state.job)
        if not state.running and (state.cancelled or state.started == state.job.sequences):
            del self._open[job_id]

    # Time passes.

    def release(self, now: float) -> list[Start]:
        """Sequences to hand to the engine now, best first."""
        self._pass_time(now)
        self.shape = self.shaping.shape(now, self._oldest_waited(now))
        if self._submitted == 0 and self._queue and now < self._window_end():
            return []
        starts: list[Start] = []
        self._follow_load()
        while self._submitted < self.shape.capacity:
            job = self._next(now)
            if job is None:
                break
            starts.append(self._start(job))
        return starts

    def expire(self, now: float) -> list[Expired]:
        """Jobs whose time ran out. Queued ones are forgotten; the caller cancels started ones."""
        expired = []
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, _, job_id = heapq.heappop(self._deadlines)
            state = self._open.get(job_id)
            if state is None or state.cancelled:
                continue
            limit = state.job.deadline if state.started else state.job.queue_deadline
            if limit is not None and limit <= deadline:
                expired.append(Expired(state.job, started=state.started > 0))
                if not state.started:
                    self.cancel(job_id, now)
        return expired

    def next_event(self) -> float | None:
        """When `release` or `expire` must be asked again if nothing else happens."""
        times = [self._deadlines[0][0]] if self._deadlines else []
        if self._submitted == 0 and self._queue:
            times.append(self._window_end())
        return min(times, default=None)

    # Inside.

    def _next(self, now: float) -> Job | None:
        """The best job that fits in the engine's memory.

        A job too large for what is free now lets smaller ones pass, but only until it has waited
        for the scale of the ageing; from then on memory is kept for it.
        """
        best = self._queue.peek()
        if best is None or self._fits(best):
            return best
        if now - best.arrival > ageing_seconds(self.limits.timeout):
            return None
        return next((job for job in self._queue.best(_BACKFILL) if self._fits(job)), None)

    def _fits(self, job: Job) -> bool:
        return self.kv is None or self._blocks + self._needed(job) <= self.kv.blocks

    def _needed(self, job: Job) -> int:
        return 0 if self.kv is None else self.kv.needed(job.capacity_tokens)

    def _start(self, job: Job) -> Start:
        state = self._open[job.id]
        start = Start(job, state.started)
        if state.started == 0:
            if self._saturated:
                self._starts.add(1)
            if job.deadline is not None:
                self._watch(job.deadline, job.id)
        state.running.add(state.started)
        state.started += 1
        self._submitted += 1
        self._blocks += self._needed(job)
        self._waiting_sequences -= 1
        if state.started == job.sequences:
            self._dequeue(job)
        return start

    def _leave_queue(self, state: _Open) -> None:
        if state.job.id in self._queue:
            self._waiting_sequences -= state.job.sequences - state.started
            self._dequeue(state.job)

    def _dequeue(self, job: Job) -> None:
        self._queue.remove(job.id)
        # Summed floats drift; an empty queue holds exactly nothing.
        self._waiting_tokens = self._waiting_tokens - job.cost if self._queue else 0.0
        self._tenants[job.tenant] -= 1
        if not self._tenants[job.tenant]:
            del self._tenants[job.tenant]

    def _oldest_waited(self, now: float) -> float:
        first = next(iter(self._queue), None)
        return 0.0 if first is None else now - self._open[first.id].admitted

    def _window_end(self) -> float:
        first = next(iter(self._queue))
        return opens_at(self.shape, self._open[first.id].admitted, self._waiting_sequences)

    def _follow_load(self) -> None:
        self._queue.follow(self.load.pressure, ageing_seconds(self.limits.timeout))

    def _watch(self, deadline: float, job_id: str) -> None:
        if len(self._deadlines) > 4 * len(self._open) + 64:
            # Mostly of jobs that ended in time.
            self._deadlines = [entry for entry in self._deadlines if entry[2] in self._open]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (deadline, self._order, job_id))
        self._order += 1

    @property
    def _saturated(self) -> bool:
        """Only a full batch shows what the server can do."""
        return self._submitted >= self.shape.batch

    def _pass_time(self, now: float) -> None:
        if self._now is not None and self._saturated:
            self._tokens.busy(now - self._now)
            self._starts.busy(now - self._now)
        self._now = now
