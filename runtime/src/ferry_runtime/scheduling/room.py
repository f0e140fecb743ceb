"""The engine's slots and its memory for keys and values: who is in, who was paused to make place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ferry_runtime.scheduling.job import Job
from ferry_runtime.scheduling.shape import KvMemory

# One sequence: the job's id and the choice's index.
Key = tuple[str, int]

# (seconds on the clock that orders requests, priority): lower goes first. See `queue.WaitingQueue`.
Rank = tuple[float, int]


@dataclass(slots=True)
class _Held:
    job: Job
    computed: int = 0  # tokens whose keys and values would be lost by a pause


class EngineRoom:
    """Counts what was handed to the engine, exactly and without asking it."""

    def __init__(self, kv: KvMemory | None, *, can_pause: bool = False) -> None:
        """``kv`` None: the engine manages its own memory, so everything fits."""
        self.kv = kv
        self.can_pause = can_pause and kv is not None
        self._held: dict[Key, _Held] = {}
        self._paused: dict[Key, _Held] = {}
        self._blocks = 0

    @property
    def sequences(self) -> int:
        """In the engine now, in a slot or waiting for one there."""
        return len(self._held)

    @property
    def paused(self) -> list[tuple[Key, Job]]:
        return [(key, held.job) for key, held in self._paused.items()]

    def ever_fits(self, job: Job) -> bool:
        return self.kv is None or self._needed(job) <= self.kv.blocks

    def fits(self, job: Job, slots: int) -> bool:
        """Whether the engine has memory for it now; or, when all slots are taken and it would
        wait there for one, whether it will have, whichever sequence ends first."""
        if self.kv is None:
            return True
        beyond = max(0, len(self._held) + 1 - slots)
        to_come = beyond * min((self._needed(held.job) for held in self._held.values()), default=0)
        return self._blocks + self._needed(job) <= self.kv.blocks + to_come

    def enter(self, key: Key, job: Job) -> bool:
        """True when the sequence was paused and goes on, False when it is new."""
        resumed = self._paused.pop(key, None)
        self._held[key] = resumed or _Held(job)
        self._blocks += self._needed(job)
        return resumed is not None

    def pause(self, key: Key) -> None:
        held = self._held.pop(key)
        self._paused[key] = held
        self._blocks -= self._needed(held.job)

    def leave(self, key: Key) -> None:
        """It has ended, in the engine or while it was paused."""
        held = self._held.pop(key, None)
        if held is None:
            self._paused.pop(key, None)
        else:
            self._blocks -= self._needed(held.job)

    def progress(self, key: Key, tokens: int) -> None:
        if (held := self._held.get(key)) is not None:
            held.computed += tokens

    def victims(
        self, job: Job, rank: Rank, rank_of: Callable[[Job], Rank], tokens_per_second: float
    ) -> list[Key]:
        """Whom to pause so that ``job`` fits: the worst ranks first, and nobody unless it pays.

        A pause throws away computed tokens, so a victim must rank behind ``job`` by more than the
        seconds that computing them again takes. Empty when that would not free enough.
        """
        if not self.can_pause or self.kv is None:
            return []
        worse = []
        for key, held in self._held.items():
            seconds, priority = rank_of(held.job)
            if (seconds - held.computed / tokens_per_second, priority) > rank:
                worse.append((seconds, priority, key))
        missing = self._blocks + self._needed(job) - self.kv.blocks
        victims: list[Key] = []
        for *_, key in sorted(worse, reverse=True):
            if missing <= 0:
                break
            victims.append(key)
            missing -= self._needed(self._held[key].job)
        return victims if missing <= 0 else []

    def _needed(self, job: Job) -> int:
        return 0 if self.kv is None else self.kv.needed(job.capacity_tokens)
