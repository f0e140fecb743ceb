"""A request as the scheduler sees it: numbers only, no text and no tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Times are seconds on one monotonic clock; tokens are counts."""

    id: str
    arrival: float
    queue_deadline: float  # must have started by then
    deadline: float | None = None  # must have ended by then; None: no limit once started
    tenant: str = ""
    priority: int = 0  # lower goes first
    sequences: int = 1  # n choices are n sequences
    prompt_tokens: int = 1
    expected_tokens: float = 0.0  # output expected of one sequence
    capacity_tokens: int = 1  # prompt + max_tokens: what one sequence may come to hold

    @property
    def cost(self) -> float:
        """Tokens to compute. The prompt counts once: further choices reuse its keys and values."""
        return self.prompt_tokens + self.sequences * self.expected_tokens


@dataclass(frozen=True, slots=True)
class Start:
    """Hand choice ``index`` of a job to the engine now."""

    job: Job
    index: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Take a running choice out of the engine, to go on later with the same tokens."""

    job_id: str
    index: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a paused choice go on."""

    job_id: str
    index: int


# What `SchedulerCore.release` decides, to be carried out in this order.
Action = Start | Pause | Resume


@dataclass(frozen=True, slots=True)
class Expired:
    """A job whose time ran out; ``started`` tells a running deadline from a queued one."""

    job: Job
    started: bool
