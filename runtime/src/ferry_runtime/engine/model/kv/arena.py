"""Where keys and values lie: one contiguous row of memory per slot and layer.

A decode step reads every running row's keys and values once. Contiguous rows are read in place by
one attention call for many sequences; pages would have to be gathered first, which on CPUs costs
more than the weights' read. So that rows of a full context each do not have to be paid for, memory
on CPUs is reserved by address only: the system commits pages as they are written, and `keep` gives
them back (the idea of vAttention, arXiv 2405.04437, with mmap in place of CUDA's virtual memory).
"""

from __future__ import annotations

import contextlib
import math
import mmap
from dataclasses import dataclass

import torch

_PAGE = mmap.PAGESIZE
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux's value; Python names it from 3.13


@dataclass(frozen=True, slots=True)
class KvShape:
    """What one token takes: ``layers`` rows of [2 (key, value), kv_heads, head_dim]."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype

    @property
    def row_elements(self) -> int:
        return 2 * self.kv_heads * self.head_dim

    @property
    def row_bytes(self) -> int:
        return self.row_elements * self.dtype.itemsize

    @property
    def token_bytes(self) -> int:
        return self.layers * self.row_bytes

    def region_tokens(self, tokens: int, multiple: int) -> int:
        """``tokens`` rounded up so that a slot's row fills whole pages and ``multiple``."""
        step = math.lcm(multiple, _PAGE // math.gcd(_PAGE, self.row_bytes))
        return -(-tokens // step) * step


class Arena:
    """[layers][slots, tokens, 2, kv_heads, head_dim]. What was never written, or given back, is zero:
    attention may read it behind a mask, where NaN would not stay hidden."""

    def __init__(self, shape: KvShape, slots: int, tokens: int, device: torch.device) -> None:
        self.shape = shape
        self.slots = slots
        self.tokens = tokens
        size = (slots, tokens, 2, shape.kv_heads, shape.head_dim)
        self._layer_bytes = slots * tokens * shape.row_bytes
        self._map: mmap.mmap | None = None
        if device.type == "cpu":
            self._map = _reserve(self._layer_bytes * shape.layers)
            self.layers = [
                torch.frombuffer(
                    self._map,
                    dtype=shape.dtype,
                    count=math.prod(size),
                    offset=self._layer_bytes * layer,
                ).view(size)
                for layer in range(shape.layers)
            ]
        else:
            self.layers = [torch.zeros(size, dtype=shape.dtype, device=device) for _ in range(shape.layers)]
        self._written = [0] * slots  # tokens up to which a slot's row may hold something

    def touch(self, slot: int, tokens: int) -> None:
        """Note that a slot's first ``tokens`` tokens may now be written."""
        self._written[slot] = max(self._written[slot], tokens)

    def keep(self, slot: int, tokens: int) -> None:
        """Zero everything after a slot's first ``tokens`` tokens and give its memory back."""
        written = self._written[slot]
        if written <= tokens:
            return
        if self._map is None:
            for layer in self.layers:
                layer[slot, tokens:written].zero_()
        else:
            self._give_back(self._map, slot, tokens, written)
        self._written[slot] = tokens

    def copy(self, source: int, target: int, begin: int, end: int) -> None:
        """Copy a slot's tokens from ``begin`` to ``end`` to another slot."""
        self.touch(target, end)
        for layer in self.layers:
            layer[target, begin:end] = layer[source, begin:end]

    def save(self, slot: int, tokens: int) -> torch.Tensor:
        """A copy of a slot's first tokens, [layers, tokens, 2, kv_heads, head_dim]."""
        shape = self.shape
        size = (shape.layers, tokens, 2, shape.kv_heads, shape.head_dim)
        if self._map is None:
            saved = torch.empty(size, dtype=shape.dtype, device=self.layers[0].device)
        else:
            # A mapping of its own goes back to the system as a whole when it is dropped.
            count = math.prod(size)
            memory = _reserve(count * shape.dtype.itemsize)
            saved = torch.frombuffer(memory, dtype=shape.dtype, count=count).view(size)
        for layer, into in zip(self.layers, saved, strict=True):
            into.copy_(layer[slot, :tokens])
        return saved

    def restore(self, saved: torch.Tensor, slot: int, tokens: int) -> None:
        self.touch(slot, tokens)
        for layer, source in zip(self.layers, saved, strict=True):
            layer[slot, :tokens] = source[:tokens]

    def _give_back(self, memory: mmap.mmap, slot: int, tokens: int, written: int) -> None:
        row_bytes = self.shape.row_bytes
        row = slot * self.tokens * row_bytes
        first = row + -(-tokens * row_bytes // _PAGE) * _PAGE  # the page that `tokens` ends in stays
        end = row + -(-written * row_bytes // _PAGE) * _PAGE
        for index, layer in enumerate(self.layers):
            layer[slot, tokens : min(written, -(-first // row_bytes) - slot * self.tokens)].zero_()
            if end > first:
                memory.madvise(mmap.MADV_DONTNEED, index * self._layer_bytes + first, end - first)


def _reserve(size: int) -> mmap.mmap:
    """Zeroed private memory that counts only once it is written."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    memory = mmap.mmap(-1, max(size, _PAGE), flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # huge pages would commit 2 MB for the first token
    return memory
