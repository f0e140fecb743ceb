"""How often semantic hits are wrong: a share of them is generated after all, when nobody is waiting,
and the fresh answer is compared with the served one.

The rate is given as a span: at least the hits whose answers are different, at most those and the unclear
ones (see `judging`), each with its Wilson bound (E. B. Wilson, JASA 22, 1927).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from ferry_runtime.cache.contract import Generate
from ferry_runtime.cache.entry import CachedChoice, Entry
from ferry_runtime.cache.judging import Judge, Verdict
from ferry_runtime.cache.leisure import Leisure
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.recording import Recorder
from ferry_runtime.errors import RequestFailed
from ferry_runtime.generation import GenerationRequest

SHARE = 0.05  # of the semantic hits
_WAITING = 20  # the newest hits that wait for a quiet moment; their prompts are in memory meanwhile
_TIMEOUT = 120.0  # seconds, of one generation
_Z = 1.96  # two-sided 95 %


@dataclass(frozen=True, slots=True)
class _Served:
    request: GenerationRequest
    entry: Entry
    score: float | None
    generate: Generate


# Hears of an entry, the verifier's score of the hit, and what came out.
Judged = Callable[[Entry, float | None, Verdict], Awaitable[None]]


class Shadow:
    """``idle`` tells whether no client's request is open. A generation that is under way when one comes
    is given up, and tried again later."""

    def __init__(
        self,
        judge: Judge,
        metrics: CacheMetrics,
        idle: Callable[[], bool],
        *,
        on_judged: Judged,
        share: float = SHARE,
    ) -> None:
        self._judge = judge
        self._on_judged = on_judged
        self._metrics = metrics
        self._idle = idle
        self._share = share
        self._served = Leisure(self._compare, idle, limit=_WAITING, what="a shadow comparison")
        metrics.wrong_rate.labels("low").set_function(lambda: self.wrong_rate()["low"])
        metrics.wrong_rate.labels("high").set_function(lambda: self.wrong_rate()["high"])

    async def start(self) -> None:
        await self._served.start()

    async def stop(self) -> None:
        await self._served.stop()

    def served(
        self, request: GenerationRequest, entry: Entry, score: float | None, generate: Generate
    ) -> None:
        """A semantic hit has just been answered with ``entry``."""
        if random.random() < self._share:  # noqa: S311 - a sample, not a secret
            self._served.add(_Served(request, entry, score, generate))

    def wrong_rate(self) -> dict[str, float]:
        """Between which shares the semantic hits are wrong, keys low and high: 0 and 1 before the
        first comparison."""
        counts = self._metrics.by_labels(self._metrics.shadow)
        total = sum(counts.values())
        different, unclear = counts.get(Verdict.DIFFERENT, 0), counts.get(Verdict.UNCLEAR, 0)
        return {"low": wilson(different, total)[0], "high": wilson(different + unclear, total)[1]}

    async def _compare(self, served: _Served) -> bool:
        """False: somebody came, so the fresh answer was not waited for."""
        fresh = await self._generate(served)
        if fresh is None:
            return False
        verdict = await self._judge.compare(served.entry.choices, fresh)
        self._metrics.shadow.labels(verdict).inc()
        await self._on_judged(served.entry, served.score, verdict)
        return True

    async def _generate(self, served: _Served) -> tuple[CachedChoice, ...] | None:
        asked = served.request
        request = replace(
            asked, id=f"{asked.id}-shadow", arrival=time.monotonic(), timeout=_TIMEOUT, queued_since=None
        )
        recorder = Recorder(request.n)
        async with aclosing(await served.generate(request)) as answer:
            async for item in answer:
                recorder.add(item)
                if not self._idle():
                    return None
        finished = recorder.finished()
        if finished is None:
            raise RequestFailed("The generation ended before its answer was whole.")
        return finished


def wilson(hits: float, total: int, z: float = _Z) -> tuple[float, float]:
    """The score interval of a share; (0, 1) of nothing."""
    if total == 0:
        return 0.0, 1.0
    share, weight = hits / total, z * z / total
    centre = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / total + weight / (4 * total))
    return max(0.0, centre - half), min(1.0, centre + half)
