"""The scheduler without a clock, a loop or an engine: every method is told the time.

The asyncio driver (`scheduler.py`) and the simulations in the tests run this same code.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ferry_runtime.scheduling.admission import (
    QueueLimits,
    Refusal,
    RejectReason,
    occupancy,
    refusal,
)
from ferry_runtime.scheduling.deadlines import Deadlines
from ferry_runtime.scheduling.job import Action, Expired, Job, Pause, Resume, Start
from ferry_runtime.scheduling.meter import RateMeter, ReturnLine
from ferry_runtime.scheduling.queue import Handicap, WaitingQueue, by_score
from ferry_runtime.scheduling.room import EngineRoom, Key
from ferry_runtime.scheduling.score import Load, ageing_seconds
from ferry_runtime.scheduling.shape import opens_at
from ferry_runtime.scheduling.shaping import Shaping

# Assumed until measured: a small model on two cores.
_PRIOR_TOKENS_PER_SECOND = 100.0
_PRIOR_STARTS_PER_SECOND = 1.0

# A request is refused at once when the work ahead of it is estimated to last so many times longer
# than it may wait, by a speed that was measured for so many seconds. Cautious on both counts: who
# is let in wrongly gets the same answer later, who is refused wrongly could have been served.
_HOPELESS = 1.25
_MEASURED_SECONDS = 20.0

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
        room: EngineRoom | None = None,
        policy: Handicap = by_score,
    ) -> None:
        """``limits`` may be replaced at any time; `fit` tells what the engine has."""
        self.limits = limits
        self.shaping = shaping
        self.shape = shaping.shape(0.0, 0.0)
        self._room = room or EngineRoom(None)
        self._queue = WaitingQueue(policy)
        self._open: dict[str, _Open] = {}
        self._tenants: dict[str, int] = {}
        self._tenants_seen: set[str] = set()  # two at most: it is enough to know of several
        self._deadlines = Deadlines(self._open)
        self._waiting_tokens = 0.0
        self._waiting_sequences = 0
        self._tokens = RateMeter(_PRIOR_TOKENS_PER_SECOND)
        self._starts = RateMeter(_PRIOR_STARTS_PER_SECOND)
        self._line = ReturnLine()
        self._now: float | None = None

    # What metrics and drain ask.

    @property
    def waiting(self) -> int:
        """Requests of which no sequence has started, and sequences beyond the engine's slots."""
        return len(self._queue) + max(0, self._room.sequences - self.shape.slots)

    @property
    def waiting_tokens(self) -> float:
        return self._waiting_tokens

    @property
    def submitted(self) -> int:
        """Sequences in the engine."""
        return self._room.sequences

    @property
    def open(self) -> int:
        """Requests between admission and their end."""
        return len(self._open)

    @property
    def load(self) -> Load:
        return Load(len(self._queue), self._tokens.rate)

    def fit(self, shaping: Shaping, room: EngineRoom) -> None:
        """Take over what the engine turned out to have, before the first request."""
        self.shaping = shaping
        self.shape = shaping.shape(0.0, 0.0)
        self._room = room

    # Requests come, change and go.

    def admit(self, job: Job, now: float) -> Refusal | None:
        """Take a job, or say why not. O(log n) on average."""
        self._pass_time(now)
        if not self._room.ever_fits(job):
            return Refusal(RejectReason.KV_MEMORY)
        held = occupancy(
            self._queue, self._waiting_tokens, len(self._queue), self.shape.slots, self._room.sequences
        )
        if len(self._tenants_seen) < 2:
            self._tenants_seen.add(job.tenant)
        several = len(self._tenants_seen) > 1
        refused = refusal(job, held, self.limits, self._tenants, several=several)
        if refused is None and held.spare_slots == 0 and self._hopeless(job, now):
            refused = Refusal(RejectReason.WAIT)
        if refused is not None:
            return refused
        self.shaping.arrived(now)
        self._open[job.id] = _Open(job, now)
        self._tenants[job.tenant] = self._tenants.get(job.tenant, 0) + 1
        self._waiting_tokens += job.cost
        self._waiting_sequences += job.sequences
        self._queue.push(job)
        self._deadlines.watch(job.queue_deadline, job.id)
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
        """Forget a job. Returns its running choices, paused ones too, which the caller must stop
        and then report as `finished`."""
        self._pass_time(now)
        state = self._open.get(job_id)
        if state is None:
            return ()
        self._leave_queue(state)
        state.cancelled = True
        if not state.running:
            del self._open[job_id]
        return tuple(state.running)

    def progress(self, job_id: str, index: int, tokens: int) -> None:
        """Tokens that the engine got done for a choice, prompt or generated."""
        self._room.progress((job_id, index), tokens)
        if self._saturated:
            self._tokens.add(tokens)

    def finished(self, job_id: str, index: int, now: float) -> None:
        """A sequence has left the engine, however it ended."""
        self._pass_time(now)
        state = self._open.get(job_id)
        if state is None or index not in state.running:
            return
        state.running.remove(index)
        self._room.leave((job_id, index))
        if not state.running and (state.cancelled or state.started == state.job.sequences):
            del self._open[job_id]

    # Time passes.

    def release(self, now: float) -> list[Action]:
        """What to do in the engine now, best first."""
        self._pass_time(now)
        self.shape = self.shaping.shape(now, self._oldest_waited(now))
        if self._window_open(now):
            return []
        self._follow_load()
        actions: list[Action] = []
        while self._room.sequences < self.shape.capacity:
            following = self._next(now)
            if not following:
                break
            actions += following
        return actions

    def expire(self, now: float) -> list[Expired]:
        """Jobs whose time ran out. Queued ones are forgotten; the caller cancels started ones."""
        expired = []
        for deadline, job_id in self._deadlines.due(now):
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
        times = [self._deadlines.next]
        if self._idle_with_queue:
            times.append(self._window_end())
        return min((time for time in times if time is not None), default=None)

    # Inside.

    def _next(self, now: float) -> list[Action]:
        """The best sequence that waits, if the engine's memory has room or room can be made.

        One too large for what is free lets smaller ones pass, but only until it has waited for
        the scale of the ageing; from then on memory is kept for it.
        """
        first = self._first()
        if first is None:
            return []
        key, job = first
        if self._room.fits(job, self.shape.slots):
            return [self._enter(key, job)]
        victims = self._room.victims(job, self._queue.rank(job), self._queue.rank, self._tokens.rate)
        if victims:
            return [*map(self._pause, victims), self._enter(key, job)]
        if now - job.arrival > ageing_seconds(self.limits.timeout):
            return []
        others = [(self._next_key(other), other) for other in self._queue.best(_BACKFILL)]
        for other_key, other in [*self._room.paused, *others]:
            if self._room.fits(other, self.shape.slots):
                return [self._enter(other_key, other)]
        return []

    def _first(self) -> tuple[Key, Job] | None:
        """Of the queue and of those that were paused, the best rank; the paused at equal rank."""
        candidates = self._room.paused
        if (head := self._queue.peek()) is not None:
            candidates.append((self._next_key(head), head))
        return min(candidates, key=lambda candidate: self._queue.rank(candidate[1]), default=None)

    def _next_key(self, job: Job) -> Key:
        return (job.id, self._open[job.id].started)

    def _enter(self, key: Key, job: Job) -> Start | Resume:
        if self._room.enter(key, job):
            return Resume(*key)
        state = self._open[job.id]
        if state.started == 0:
            if self._saturated:
                self._starts.add(1)
            if job.deadline is not None:
                self._deadlines.watch(job.deadline, job.id)
        state.running.add(state.started)
        state.started += 1
        self._waiting_sequences -= 1
        if state.started == job.sequences:
            self._dequeue(job)
        return Start(job, key[1])

    def _pause(self, key: Key) -> Pause:
        self._room.pause(key)
        return Pause(*key)

    def _hopeless(self, job: Job, now: float) -> bool:
        """O(1) unless the whole queue would be too much to wait for; then O(n)."""
        if self._tokens.seconds_measured < _MEASURED_SECONDS:
            return False
        most = (job.queue_deadline - now) / _HOPELESS * self._tokens.rate
        if self._waiting_tokens <= most:
            return False
        rank = self._queue.rank(job)
        return sum(other.cost for other in self._queue if self._queue.rank(other) <= rank) > most

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

    @property
    def _idle_with_queue(self) -> bool:
        return self._room.sequences == 0 and len(self._queue) > 0

    def _window_open(self, now: float) -> bool:
        """Whether an idle engine still waits for company."""
        return self._idle_with_queue and not self._room.paused and now < self._window_end()

    def _window_end(self) -> float:
        first = next(iter(self._queue))
        return opens_at(self.shape, self._open[first.id].admitted, self._waiting_sequences)

    def _follow_load(self) -> None:
        self._queue.follow(self.load.pressure, ageing_seconds(self.limits.timeout))

    @property
    def _saturated(self) -> bool:
        """Only a full batch shows what the server can do."""
        return self._room.sequences >= self.shape.batch

    def _pass_time(self, now: float) -> None:
        if self._now is not None and self._saturated:
            self._tokens.busy(now - self._now)
            self._starts.busy(now - self._now)
        self._now = now
