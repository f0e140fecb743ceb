"""A server in virtual time: the real scheduler core over an engine that is a step function."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pytest

from ferry_runtime.scheduling.admission import QueueLimits, RejectReason
from ferry_runtime.scheduling.core import SchedulerCore
from ferry_runtime.scheduling.job import Action, Job, Pause, Resume, Start
from ferry_runtime.scheduling.queue import Handicap, by_score
from ferry_runtime.scheduling.room import EngineRoom
from ferry_runtime.scheduling.shape import BatchShape, KvMemory
from ferry_runtime.scheduling.shaping import FixedShaping, Shaping

STEP = 0.05  # seconds of a decode step, whatever its rows
PREFILL = 0.0005  # seconds per prompt token


NextJob = Callable[[Job, float], Job | None]


@dataclass
class Row:
    job: Job
    index: int
    prompt: int
    tokens: int
    done: int = 0


@dataclass
class Simulation:
    """Feed it jobs in order of arrival; `run` plays them to the end.

    ``actual`` gives a sequence's true length. Everything that happens is recorded by job id.
    """

    core: SchedulerCore
    actual: dict[str, int] = field(default_factory=dict)
    row_seconds: float = 0.0  # added to a step by each of its rows
    chunk: int = 256
    now: float = 0.0
    rows: list[Row] = field(default_factory=list)
    order: list[tuple[str, int]] = field(default_factory=list)  # (job, choice) as they were started
    admitted: dict[str, Job] = field(default_factory=dict)
    refused: dict[str, RejectReason] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    first_token: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    expired: dict[str, float] = field(default_factory=dict)
    most_rows: int = 0
    set_aside: dict[tuple[str, int], Row] = field(default_factory=dict)
    pauses: list[str] = field(default_factory=list)

    def run(self, jobs: Iterable[Job], next_job: NextJob | None = None) -> Simulation:
        """``next_job`` makes a closed loop: what a user sends when its last request has ended."""
        number = itertools.count()  # breaks ties: jobs have no order of their own
        arrivals = [(job.arrival, next(number), job) for job in jobs]
        heapq.heapify(arrivals)
        seen = 0
        while arrivals or self.core.open:
            while arrivals and arrivals[0][0] <= self.now:
                self.admit(heapq.heappop(arrivals)[2])
            self._due()
            if self.rows:
                self.step()
                for job_id in list(self.ended)[seen:] if next_job else ():
                    following = next_job(self.admitted[job_id], self.now)
                    if following is not None:
                        heapq.heappush(arrivals, (following.arrival, next(number), following))
                seen = len(self.ended)
                continue
            upcoming = [arrivals[0][0]] if arrivals else []
            event = self.core.next_event()
            if event is not None:
                upcoming.append(event)
            if not upcoming:
                break
            self.now = max(self.now, min(upcoming))
        return self

    def admit(self, job: Job) -> None:
        refusal = self.core.admit(job, self.now)
        if refusal is None:
            self.admitted[job.id] = job
        else:
            self.refused[job.id] = refusal.reason

    @property
    def in_slots(self) -> list[Row]:
        """The engine takes what it was handed in order."""
        return self.rows[: self.core.shape.slots]

    def step(self) -> None:
        """One step: every decoding row gets a token, prompts are computed in chunks."""
        running = self.in_slots
        budget, self.most_rows = self.chunk, max(self.most_rows, len(running))
        duration = STEP + self.row_seconds * len(running)
        self.core.shaping.stepped(len(running), duration)
        for row in running:
            if row.prompt:
                part = min(row.prompt, budget)
                row.prompt, budget, duration = row.prompt - part, budget - part, duration + part * PREFILL
                self.core.progress(row.job.id, row.index, part)
            else:
                row.tokens -= 1
                row.done += 1
                self.core.progress(row.job.id, row.index, 1)
        self.now += duration
        for row in running:
            if not row.prompt and row.job.id not in self.first_token:
                self.first_token[row.job.id] = self.now
                self.core.shaping.first_token(self.now - self.started[row.job.id])
            if row.tokens <= 0:
                self.rows.remove(row)
                self.core.finished(row.job.id, row.index, self.now)
                self.ended[row.job.id] = self.now

    def _due(self) -> None:
        for gone in self.core.expire(self.now):
            self.expired[gone.job.id] = self.now
            for index in self.core.cancel(gone.job.id, self.now):
                self.rows = [row for row in self.rows if (row.job.id, row.index) != (gone.job.id, index)]
                self.set_aside.pop((gone.job.id, index), None)
                self.core.finished(gone.job.id, index, self.now)
        for action in self.core.release(self.now):
            self._carry_out(action)

    def _carry_out(self, action: Action) -> None:
        match action:
            case Start():
                self._start(action)
            case Pause(job_id, index):
                (row,) = [row for row in self.rows if (row.job.id, row.index) == (job_id, index)]
                self.rows.remove(row)
                self.set_aside[job_id, index] = row
                self.pauses.append(job_id)
            case Resume(job_id, index):
                row = self.set_aside.pop((job_id, index))
                row.prompt = row.job.prompt_tokens + row.done  # computed again
                self.rows.append(row)

    def _start(self, start: Start) -> None:
        job = start.job
        self.order.append((job.id, start.index))
        self.started.setdefault(job.id, self.now)
        length = self.actual.get(job.id, max(1, round(job.expected_tokens)))
        self.rows.append(Row(job, start.index, job.prompt_tokens if start.index == 0 else 0, length))


@pytest.fixture
def simulate():
    def build(
        *,
        slots: int = 4,
        max_wait: float = 0.0,
        policy: Handicap = by_score,
        kv: KvMemory | None = None,
        actual: dict[str, int] | None = None,
        shaping: Shaping | None = None,
        row_seconds: float = 0.0,
        can_pause: bool = False,
        **limits: float | None,
    ) -> Simulation:
        core = SchedulerCore(
            replace(QueueLimits(max_requests=10_000, max_tokens=10**9, timeout=60.0), **limits),
            shaping or FixedShaping(BatchShape(slots=slots, batch=slots, max_wait=max_wait)),
            EngineRoom(kv, can_pause=can_pause),
            policy,
        )
        return Simulation(core, actual or {}, row_seconds)

    return build


@pytest.fixture
def job_of():
    def build(number: int, arrival: float = 0.0, **fields) -> Job:
        fields.setdefault("queue_deadline", arrival + 1e9)
        fields.setdefault("expected_tokens", 10.0)
        return Job(id=f"job-{number}", arrival=arrival, **fields)

    return build
