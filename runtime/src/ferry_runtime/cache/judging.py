"""Do two answers say the same? Asked of a stored answer beside a fresh one, when nobody is waiting.

The judge is cautious. Answers count as the same only when their embeddings are near and none of the
verifier's rules sets them apart, as different only when they are far from each other; all between is
unclear. `bench/cache_judge.py` measures it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ferry_runtime.cache.entry import CachedChoice
from ferry_runtime.cache.semantic.features import compare
from ferry_runtime.cache.semantic.verifier import rule_against
from ferry_runtime.cache.semantic.words import read
from ferry_runtime.cache.tiers import Semantic

SAME, DIFFERENT = 0.9, 0.6  # cosines of two answers' embeddings


class Verdict(StrEnum):
    """Of one answer beside another; a metric label."""

    SAME = "same"
    DIFFERENT = "different"
    UNCLEAR = "unclear"


_WORST_FIRST = (Verdict.DIFFERENT, Verdict.UNCLEAR, Verdict.SAME)


class Judge:
    """``semantic``: None leaves everything unclear but equal texts."""

    def __init__(self, semantic: Semantic | None) -> None:
        self._semantic = semantic

    async def compare(self, one: Sequence[CachedChoice], other: Sequence[CachedChoice]) -> Verdict:
        """Choice by choice; the worst counts."""
        if len(one) != len(other):
            return Verdict.UNCLEAR
        verdicts = [await self.judge(a.text, b.text) for a, b in zip(one, other, strict=True)]
        return next(verdict for verdict in _WORST_FIRST if verdict in verdicts)

    async def judge(self, one: str, other: str) -> Verdict:
        if one.split() == other.split():
            return Verdict.SAME
        first, second = await self._vector(one), await self._vector(other)
        if first is None or second is None:
            return Verdict.UNCLEAR
        cosine = float(first @ second)
        if cosine < DIFFERENT:
            return Verdict.DIFFERENT
        return await asyncio.to_thread(verdict_of, cosine, one, other)

    async def _vector(self, text: str) -> NDArray[np.float32] | None:
        vector = await self._semantic.vector(text) if self._semantic is not None else None
        return None if vector is None else np.frombuffer(vector, dtype="<f2").astype(np.float32)


def verdict_of(cosine: float, one: str, other: str) -> Verdict:
    """By the cosine of two texts' embeddings and the verifier's rules."""
    if cosine < DIFFERENT:
        return Verdict.DIFFERENT
    near = cosine >= SAME and rule_against(compare(read(one), read(other))) is None
    return Verdict.SAME if near else Verdict.UNCLEAR
