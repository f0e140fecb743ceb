"""How many go into the engine, and how long the first waits for company."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShape:
    """``slots``: sequences that the engine decodes at once; ``batch``: the most that are wanted
    there (fewer in adaptive mode); ``max_wait``: seconds from the first waiting request."""

    slots: int
    batch: int
    max_wait: float

    @property
    def lookahead(self) -> int:
        """Sequences handed over beyond the slots, so that one that falls free is filled at the next
        step without a round trip. Few, because what was handed over is out of order's reach; none
        while the engine has more slots than are wanted, since it would run them at once."""
        if self.batch < self.slots:
            return 0
        return 1 if self.batch <= 8 else 2

    @property
    def capacity(self) -> int:
        return self.batch + self.lookahead


def opens_at(shape: BatchShape, first_waiting: float, waiting_sequences: int) -> float:
    """When an idle engine may start; only an idle one waits for company.

    The window runs once, from the first waiting request, however many follow; a full batch
    does not wait.
    """
    if waiting_sequences >= shape.batch:
        return first_waiting
    return first_waiting + shape.max_wait


@dataclass(frozen=True, slots=True)
class KvMemory:
    """The engine's keys and values, counted in blocks of tokens."""

    blocks: int
    block_tokens: int

    def needed(self, capacity_tokens: int) -> int:
        return -(-capacity_tokens // self.block_tokens)
