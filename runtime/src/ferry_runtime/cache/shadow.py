"""How often semantic hits are wrong: a share of them is generated after all, when nobody is waiting,
and the fresh answer is compared with the served one.

The rate is given as a span: at least the hits whose answers are different, at most those and the unclear
ones (see `judging`), each with its Wilson bound (E. B. Wilson, JASA 22, 1927).
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from ferry_runtime.cache.contract import Generate
from ferry_runtime.cache.entry import CachedChoice, Entry
from ferry_runtime.cache.judging import Judge, Verdict, quiet
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.recording import Recorder
from ferry_runtime.cache.tasks import end
from ferry_runtime.errors import FerryError, RequestFailed
from ferry_runtime.generation import GenerationRequest

log = logging.getLogger(__name__)

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
        self._served: deque[_Served] = deque(maxlen=_WAITING)
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        metrics.wrong_rate.labels("low").set_function(lambda: self.wrong_rate()["low"])
        metrics.wrong_rate.labels("high").set_function(lambda: self.wrong_rate()["high"])

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        await end(self._task)

    def served(
        self, request: GenerationRequest, entry: Entry, score: float | None, generate: Generate
    ) -> None:
        """A semantic hit has just been answered with ``entry``."""
        if random.random() < self._share:  # noqa: S311 - a sample, not a secret
            self._served.append(_Served(request, entry, score, generate))
            self._wanted.set()

    def wrong_rate(self) -> dict[str, float]:
        """Between which shares the semantic hits are wrong, keys low and high: 0 and 1 before the
        first comparison."""
        counts = self._metrics.by_labels(self._metrics.shadow)
        total = sum(counts.values())
        different, unclear = counts.get(Verdict.DIFFERENT, 0), counts.get(Verdict.UNCLEAR, 0)
        return {"low": wilson(different, total)[0], "high": wilson(different + unclear, total)[1]}

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            await quiet(self._idle)
            served = self._served.popleft()
            try:
                verdict = await self._compare(served)
            except FerryError:
                pass  # a sample more or less: it cannot be generated now, and need not be
            except Exception as error:  # noqa: BLE001 - one bad comparison must not end all
                # Its kind only: a message may quote the answer.
                log.error("cache: a shadow comparison failed: %s", type(error).__name__)
            else:
                if verdict is None:
                    self._served.appendleft(served)
                else:
                    self._metrics.shadow.labels(verdict).inc()
                    await self._on_judged(served.entry, served.score, verdict)
            if not self._served:
                self._wanted.clear()

    async def _compare(self, served: _Served) -> Verdict | None:
        """None: somebody came, so the fresh answer was not waited for."""
        fresh = await self._generate(served)
        if fresh is None:
            return None
        return await self._judge.compare(served.entry.choices, fresh)

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
