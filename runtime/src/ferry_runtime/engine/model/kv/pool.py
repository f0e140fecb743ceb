"""Who has how much of the KV memory, and whose keys and values a new prompt can start from.

Blocks of `block_tokens` tokens are the unit of account. A running sequence holds from its admission
what its capacity needs, so that it can never run out in mid-answer. What is left may hold prefixes of
finished sequences, in a free slot or beside the slots; they are given up, least recently used first,
whenever a running sequence needs the room.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from ferry_runtime.engine.model.contract import MIN_KEPT_TOKENS, SequenceId
from ferry_runtime.engine.model.kv.arena import Arena
from ferry_runtime.errors import CannotFit

MAX_SAVED = 512  # prefixes beside the slots; each is compared with at every admission


@dataclass
class Slot:
    """One row of the arena: of a running sequence, or holding a finished one's prefix."""

    index: int
    sequence: SequenceId | None = None
    prompt: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)  # whose keys and values the row holds
    blocks: int = 0
    used: int = 0  # the clock's time
    spoiled: bool = False  # holds what is not finite: for its own sequence only


@dataclass
class Saved:
    """A prefix beside the slots."""

    tokens: list[int]
    memory: torch.Tensor
    blocks: int
    used: int


class KvPool:
    """``saved_blocks`` bounds what prefixes beside the slots may take, where the slots' own memory is
    taken whether it is used or not (GPUs); without it all memory is one account.

    ``reuse_step``: prefixes are kept and reused in multiples of so many tokens of a prompt
    (Deterministic numerics: the prefill chunk); 1 reuses generated tokens too."""

    def __init__(
        self,
        arena: Arena,
        *,
        blocks: int,
        block_tokens: int,
        context: int,
        reuse_step: int = 1,
        saved_blocks: int | None = None,
    ) -> None:
        self.arena = arena
        self.blocks = blocks
        self.block_tokens = block_tokens
        self._context = context
        self._reuse_step = reuse_step
        self._saved_blocks = blocks if saved_blocks is None else saved_blocks
        self._slots = [Slot(index) for index in range(arena.slots)]
        self._running: dict[SequenceId, Slot] = {}
        self._saved: list[Saved] = []
        self._clock = itertools.count(1)

    @property
    def running_blocks(self) -> int:
        return sum(slot.blocks for slot in self._running.values())

    @property
    def kept_blocks(self) -> int:
        return sum(item.blocks for item in self._kept())

    def running(self, sequence: SequenceId) -> Slot:
        """Raises KeyError for a sequence that is not admitted."""
        return self._running[sequence]

    def extend(self, sequence: SequenceId, start: int, tokens: Sequence[int]) -> None:
        """Note that keys and values of ``tokens`` at ``start`` are now computed."""
        self._running[sequence].tokens[start:] = tokens

    def spoil(self, sequence: SequenceId) -> None:
        """Keep a sequence's keys and values from others: some are not finite."""
        self._running[sequence].spoiled = True

    def admit(
        self, sequence: SequenceId, prompt: Sequence[int], capacity: int, *, reuse: bool = True
    ) -> int | None:
        """As `Runner.admit`."""
        if sequence in self._running:
            raise ValueError(f"sequence {sequence} is already admitted")
        needed = self._blocks_of(max(capacity, len(prompt)))
        if max(capacity, len(prompt)) > self._context or needed > self.blocks:
            raise CannotFit(
                f"The request needs room for {max(capacity, len(prompt))} tokens; "
                f"the engine's context holds {self._context}."
            )
        if len(self._running) == len(self._slots) or self.running_blocks + needed > self.blocks:
            return None
        tokens = list(prompt)
        items: tuple[Slot | Saved, ...] = (*self._slots, *self._saved) if reuse else ()
        source, length = self._best_source(items, tokens)
        slot, source = self._take_slot(source, length, needed)
        if source is None:
            length = 0
        self._fill(slot, source, length)
        slot.sequence, slot.prompt, slot.tokens = sequence, tokens, tokens[:length]
        slot.blocks, slot.used = needed, next(self._clock)
        self._running[sequence] = slot
        return length

    def adopt(self, sequence: SequenceId) -> int:
        """As `TorchRunner.adopt`."""
        slot = self._running[sequence]
        have = len(slot.tokens)
        # What lies beside the slots came from one, and was looked at while it was there.
        source, length = self._best_source((other for other in self._slots if other is not slot), slot.prompt)
        if source is None or length - have < MIN_KEPT_TOKENS:
            return have
        self._fill(slot, source, length, have)
        slot.tokens = slot.prompt[:length]
        return length

    def release(self, sequence: SequenceId, tokens: Sequence[int] = ()) -> None:
        """As `Runner.release`. Forgets nothing that is still right: the row's start stays readable."""
        slot = self._running.pop(sequence)
        keep = common_prefix(slot.tokens, list(tokens))
        if self._reuse_step > 1:
            keep = min(keep, len(slot.prompt)) // self._reuse_step * self._reuse_step
        if keep < MIN_KEPT_TOKENS or slot.spoiled:
            keep = 0
        slot.sequence, slot.prompt, slot.spoiled = None, [], False
        self._shrink(slot, keep)
        slot.used = next(self._clock)

    def drop_kept(self) -> None:
        """Give up every kept prefix."""
        for item in list(self._kept()):
            self._evict(item)

    def _blocks_of(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def _kept(self) -> Iterator[Slot | Saved]:
        yield from (slot for slot in self._slots if slot.sequence is None and slot.tokens)
        yield from self._saved

    def _best_source(
        self, items: Iterable[Slot | Saved], prompt: list[int]
    ) -> tuple[Slot | Saved | None, int]:
        """The longest usable head of ``prompt`` that one of them holds. The last token is never part
        of it: its logits are wanted."""
        best: Slot | Saved | None = None
        best_length = 0
        for item in items:
            if isinstance(item, Slot) and item.spoiled:
                continue
            length = min(common_prefix(item.tokens, prompt), len(prompt) - 1)
            if self._reuse_step > 1 and isinstance(item, Slot) and item.sequence is not None:
                length = min(length, len(item.prompt))  # what decoding computed has other bits
            length -= length % self._reuse_step
            if length > best_length:
                best, best_length = item, length
        return best, best_length

    def _take_slot(
        self, source: Slot | Saved | None, length: int, needed: int
    ) -> tuple[Slot, Slot | Saved | None]:
        """A free slot, with room for ``needed`` blocks made, and the source if it outlived that."""
        free = [slot for slot in self._slots if slot.sequence is None]
        others = [slot for slot in free if slot is not source]
        if (
            isinstance(source, Slot)
            and source.sequence is None
            and (not others or 2 * length >= len(source.tokens))
        ):
            slot = source  # its keys and values stay where they are
        else:
            slot = min(others, key=lambda slot: slot.used if slot.tokens else 0)
            self._vacate(slot)
        room = self.blocks - self.running_blocks - needed
        while sum(item.blocks for item in self._kept() if item is not slot) > room:
            victims = [item for item in self._kept() if item is not source and item is not slot]
            if victims:
                self._evict(min(victims, key=lambda item: item.used))
            elif isinstance(source, Slot):
                slot = source
            elif source is not None:
                self._evict(source)
                source = None
        return slot, source

    def _fill(self, slot: Slot, source: Slot | Saved | None, length: int, have: int = 0) -> None:
        """Make the slot's row begin with the source's first tokens and be zero after them. The first
        ``have`` are the same in both already."""
        if source is None or source is slot:
            self.arena.keep(slot.index, length)
        elif isinstance(source, Slot):
            self.arena.copy(source.index, slot.index, have, length)
        else:
            self.arena.restore(source.memory, slot.index, length)
        if source is not None:
            source.used = next(self._clock)

    def _vacate(self, slot: Slot) -> None:
        """Move a free slot's prefix beside the slots, if it is worth its room, and empty the slot."""
        others: tuple[Slot | Saved, ...] = (*self._slots, *self._saved)
        held_elsewhere = any(
            common_prefix(item.tokens, slot.tokens) == len(slot.tokens) for item in others if item is not slot
        )
        if slot.tokens and not held_elsewhere and self._make_room_beside(slot):
            memory = self.arena.save(slot.index, len(slot.tokens))
            self._saved = [
                saved for saved in self._saved if common_prefix(saved.tokens, slot.tokens) < len(saved.tokens)
            ]
            self._saved.append(Saved(slot.tokens, memory, slot.blocks, slot.used))
        self._shrink(slot, 0)

    def _make_room_beside(self, slot: Slot) -> bool:
        """Give up older saved prefixes until a copy of the slot's fits, or say that it never will."""
        while True:
            # Both copies exist for a moment, and the bound holds in that moment too.
            room = min(
                self.blocks - self.running_blocks - self.kept_blocks,
                self._saved_blocks - sum(saved.blocks for saved in self._saved),
            )
            if slot.blocks <= room and len(self._saved) < MAX_SAVED:
                return True
            older = [saved for saved in self._saved if saved.used < slot.used]
            if not older:
                return False
            self._evict(min(older, key=lambda saved: saved.used))

    def _shrink(self, slot: Slot, tokens: int) -> None:
        """Keep only the first tokens of a slot that no sequence runs in."""
        self.arena.keep(slot.index, tokens)
        slot.tokens = slot.tokens[:tokens]
        slot.blocks = self._blocks_of(tokens)

    def _evict(self, item: Slot | Saved) -> None:
        if isinstance(item, Slot):
            self._shrink(item, 0)
        else:
            self._saved = [saved for saved in self._saved if saved is not item]


def common_prefix(a: list[int], b: list[int]) -> int:
    """Length of the longest common head. Compares growing slices, which C does, not items."""
    length = min(len(a), len(b))
    low, step = 0, 32  # a[:low] equals b[:low]
    while low < length:
        high = min(low + step, length)
        if a[low:high] == b[low:high]:
            low, step = high, 2 * step
        elif high - low == 1:
            break
        else:
            length, step = high, (high - low) // 2
    return low
