"""Vectors of one partition: sign bits to find candidates, int8 codes to rank them.

A bit per dimension keeps the order of near neighbours well enough that the true nearest of
normalised text embeddings stand among the first few dozen by Hamming distance; those are then scored
from the codes, whose cosine is within 0.003 of the exact one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 384
_WORDS = DIMENSIONS // 64
_CHUNK = 65_536  # rows at a time: few calls, and their working space stays in a core's cache
_SCORE_ALL = 512  # below this many rows, scoring all is quicker than choosing
_SHORTLIST = 64
# Bytes per row of the arrays below, and of Python's objects around them.
ROW_BYTES = DIMENSIONS + _WORDS * 8 + 4


class Partition:
    """Rows are numbered 0…n-1; removing one moves the last row into its place."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._codes: NDArray[np.int8] = np.empty((4, DIMENSIONS), dtype=np.int8)
        self._scales: NDArray[np.float32] = np.empty(4, dtype=np.float32)
        self._signs: NDArray[np.uint64] = np.empty((_WORDS, 4), dtype=np.uint64)

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, entry_id: str, vector: NDArray[np.float32]) -> int:
        """``vector``: shape (384,), unit length. Returns the row."""
        row = len(self.ids)
        if row == len(self._scales):
            self._grow(max(8, row + row // 2))
        scale = float(np.abs(vector).max()) / 127 or 1.0
        self._codes[row] = np.rint(vector / scale)
        self._scales[row] = scale
        self._signs[:, row] = _bits(vector)
        self.ids.append(entry_id)
        return row

    def remove(self, row: int) -> str | None:
        """Returns the id that now stands at ``row``, if another one moved there."""
        last = len(self.ids) - 1
        moved = self.ids.pop()
        if row == last:
            return None
        self.ids[row] = moved
        self._codes[row] = self._codes[last]
        self._scales[row] = self._scales[last]
        self._signs[:, row] = self._signs[:, last]
        return moved

    def nearest(self, vector: NDArray[np.float32], threshold: float, limit: int) -> list[tuple[str, float]]:
        """Ids with their cosine, at least ``threshold``, nearest first."""
        count = len(self.ids)
        rows: Any = slice(0, count) if count <= _SCORE_ALL else self._shortlist(vector, count)
        cosines = (self._codes[rows].astype(np.float32) @ vector) * self._scales[rows]
        best = np.argsort(-cosines)[:limit]
        numbers = best if isinstance(rows, slice) else rows[best]
        return [
            (self.ids[row], min(1.0, float(cosine)))
            for row, cosine in zip(numbers, cosines[best], strict=True)
            if cosine >= threshold
        ]

    def cosine(self, row: int, vector: NDArray[np.float32]) -> float:
        return min(1.0, float(self._codes[row].astype(np.float32) @ vector) * float(self._scales[row]))

    def vector(self, row: int) -> NDArray[np.float32]:
        stored: NDArray[np.float32] = self._codes[row].astype(np.float32) * self._scales[row]
        return stored

    def _shortlist(self, vector: NDArray[np.float32], count: int) -> NDArray[np.intp]:
        query = _bits(vector)
        distance = np.zeros(count, dtype=np.uint16)
        differing = np.empty(_CHUNK, dtype=np.uint64)
        ones = np.empty(_CHUNK, dtype=np.uint8)
        for start in range(0, count, _CHUNK):
            stop = min(count, start + _CHUNK)
            size, total = stop - start, distance[start:stop]
            for word in range(_WORDS):
                np.bitwise_xor(self._signs[word, start:stop], query[word], out=differing[:size])
                np.bitwise_count(differing[:size], out=ones[:size])
                np.add(total, ones[:size], out=total)
        # partition() is many times quicker than argpartition() on 16-bit numbers.
        cutoff = np.partition(distance, _SHORTLIST - 1)[_SHORTLIST - 1]
        rows = np.flatnonzero(distance <= cutoff)
        if len(rows) > 4 * _SHORTLIST:  # many at the same distance, as with repeated texts
            rows = rows[np.argsort(distance[rows], kind="stable")[: 4 * _SHORTLIST]]
        return rows

    def _grow(self, capacity: int) -> None:
        count = len(self.ids)
        codes, scales, signs = self._codes, self._scales, self._signs
        self._codes = np.empty((capacity, DIMENSIONS), dtype=np.int8)
        self._scales = np.empty(capacity, dtype=np.float32)
        self._signs = np.empty((_WORDS, capacity), dtype=np.uint64)
        self._codes[:count], self._scales[:count], self._signs[:, :count] = codes, scales, signs


def _bits(vector: NDArray[np.float32]) -> NDArray[np.uint64]:
    return np.packbits(vector > 0).view(np.uint64)
