"""Labels for entries: from misses in doubt, from shadow comparisons, from clients' verdicts.

A question whose best candidate was neither accepted nor rejected is generated anyway. When nobody is
waiting, its answer is compared with the candidate's, which tells whether that one would have done, and
so, the score being symmetric, whether the new one would do for the candidate's question: both are labelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ferry_runtime.cache.entry import Entry
from ferry_runtime.cache.judging import Judge, Verdict
from ferry_runtime.cache.labels import encode
from ferry_runtime.cache.leisure import Leisure
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.tiers import Candidate, Semantic, Tiers

_WAITING = 200  # of the newest pairs; ids and scores only


class Source(StrEnum):
    """Who found it out; a metric label."""

    MISS = "miss"
    SHADOW = "shadow"
    FEEDBACK = "feedback"


@dataclass(frozen=True, slots=True)
class _Doubt:
    candidate: str
    fresh: str
    score: float


class Labeller:
    """``idle`` tells whether no client's request is open."""

    def __init__(
        self,
        tiers: Tiers,
        metrics: CacheMetrics,
        semantic: Semantic | None,
        judge: Judge,
        idle: Callable[[], bool],
    ) -> None:
        self._tiers = tiers
        self._metrics = metrics
        self._semantic = semantic
        self._judge = judge
        self._doubts = Leisure(self._settle, idle, limit=_WAITING, what="a comparison")

    async def start(self) -> None:
        if self._semantic is not None:
            await self._doubts.start()

    async def stop(self) -> None:
        await self._doubts.stop()

    def doubted(self, candidate: Candidate, fresh_id: str) -> None:
        """``candidate`` was not served; the answer that was generated instead is the entry ``fresh_id``."""
        if candidate.score is not None and candidate.entry_id != fresh_id:
            self._doubts.add(_Doubt(candidate.entry_id, fresh_id, candidate.score))

    async def judged(self, entry: Entry, score: float | None, verdict: Verdict, source: Source) -> None:
        """A fresh answer beside the entry's. What is unclear labels nothing."""
        self._metrics.labels.labels(source.value, verdict.value).inc()
        await self._label(entry, score, verdict)

    def last_score(self, entry_id: str) -> float | None:
        """What `told` needs to know, asked before the entry is forgotten."""
        return self._semantic.last_score(entry_id) if self._semantic is not None else None

    async def told(self, entry: Entry, score: float | None, *, right: bool) -> None:
        """A client's verdict names no question: it is about the entry's latest hit, if that was here."""
        await self.judged(entry, score, Verdict.SAME if right else Verdict.DIFFERENT, Source.FEEDBACK)

    async def _label(self, entry: Entry, score: float | None, verdict: Verdict) -> None:
        if score is not None and verdict is not Verdict.UNCLEAR:
            await self._tiers.judge(entry, encode(score, right=verdict is Verdict.SAME))

    async def _settle(self, doubt: _Doubt) -> bool:
        now = time.time()
        stored, fresh = [await self._tiers.fetch(one, now) for one in (doubt.candidate, doubt.fresh)]
        if stored is None or fresh is None or not fresh.finished_by_itself:
            return True
        verdict = await self._judge.compare(stored.choices, fresh.choices)
        await self.judged(stored, doubt.score, verdict, Source.MISS)
        await self._label(fresh, doubt.score, verdict)
        return True
