"""The semantic tier: gate the question, embed it, look for near ones, let the verifier decide."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ferry_api.runtime_config import Verifier
from ferry_runtime.cache.labels import Labels
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.semantic.compared import Compared, Comparisons
from ferry_runtime.cache.semantic.gates import Skip, skip_reason
from ferry_runtime.cache.semantic.index import Near, SemanticIndex
from ferry_runtime.cache.semantic.verifier import Decision, LearnedVerifier, Verdict, shipped
from ferry_runtime.cache.tasks import end
from ferry_runtime.cache.tiers import Candidate, Found
from ferry_runtime.errors import FerryError

log = logging.getLogger(__name__)

_BIG = 20_000  # rows past which a search leaves the event loop to a thread
_LONG = 300  # characters past which comparing two questions does
_MEMO = 2_000  # questions whose vectors are remembered
Vector = NDArray[np.float32]


class Embedded(Protocol):
    """What `embedding.EmbeddingClient.embed` yields per text: float32 bytes, None when too long."""

    @property
    def vector(self) -> bytes | None: ...


class Loaded(Protocol):
    @property
    def fingerprint(self) -> str: ...


class Embedder(Protocol):
    """The part of `embedding.EmbeddingClient` that is used here."""

    async def load(self) -> Loaded: ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Embedded]: ...


class SemanticTier:
    """Implements `tiers.Semantic`. ``patience``: seconds a lookup waits for its embedding."""

    def __init__(
        self,
        embedder: Embedder,
        metrics: CacheMetrics,
        *,
        max_entries: int = 100_000,
        max_bytes: int = 128 << 20,
        patience: float = 0.25,
        verifier: LearnedVerifier | None = None,
    ) -> None:
        self.index = SemanticIndex(max_entries, max_bytes, lambda: self._fingerprint)
        self._comparisons = Comparisons()
        self._embedder = embedder
        self._metrics = metrics
        self._patience = patience
        self._verifier = verifier or shipped()
        self.labels = Labels(lambda: (self._verifier.accept, self._verifier.grey))
        self._fingerprint = ""
        self._memo: OrderedDict[str, Vector | None] = OrderedDict()
        self._running: dict[str, asyncio.Task[Vector | None]] = {}
        self._loading: asyncio.Task[None] | None = None

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def wake(self) -> None:
        """Load the embedder in the background; until then only the exact tier answers. A service
        whose cache is switched off never gets here and pays nothing."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())

    async def stop(self) -> None:
        await end(self._loading)
        for task in list(self._running.values()):
            await end(task)

    async def ready(self) -> bool:
        """Until loading has ended; False when there is no embedder."""
        self.wake()
        if self._loading is not None:
            await asyncio.wait([self._loading])
        return bool(self._fingerprint)

    async def find(self, question: str, partition: bytes, threshold: float, verifier: Verifier) -> Found:
        reason = skip_reason(question)
        if reason is not None:
            self._metrics.skips.labels(reason.value).inc()
            return Found()
        if not self.index.partition_size(partition):
            return Found()
        vector = await self._vector(question, self._patience)
        if vector is None:
            return Found()
        started = time.perf_counter()
        near = await self._nearest(partition, vector, threshold)
        if verifier is Verifier.NONE:
            found = Found(tuple(Candidate(item.row.id, item.cosine) for item in near))
        else:
            found = await self._verified(near, question)
        self._metrics.search_seconds.observe(time.perf_counter() - started)
        if near and not found.accepted:
            self._metrics.near_misses.inc()
        for candidate in found.accepted:
            self.index.touch(candidate.entry_id, candidate.score)
        return found

    def last_score(self, entry_id: str) -> float | None:
        return self.index.last_score(entry_id)

    async def vector(self, question: str) -> bytes | None:
        if skip_reason(question) is not None:
            return None
        return _stored(await self._vector(question, 10.0))

    def expect(self, question: str, partition: bytes) -> None:
        if self.index.partition_size(partition):
            self.prepare(question)

    def prepare(self, question: str) -> None:
        if skip_reason(question) is None and question not in self._memo and question not in self._running:
            self._start_embedding(question)

    def compared(self) -> list[Compared]:
        return self._comparisons.latest()

    def at_hand(self, question: str) -> bytes | None:
        return _stored(self._memo.get(question))

    async def _nearest(self, partition: bytes, vector: Vector, threshold: float) -> list[Near]:
        """A big search runs in a thread: numpy lets go of the interpreter, so that the loop goes on."""
        index = self.index
        if index.partition_size(partition) < _BIG:
            return index.nearest(partition, vector, threshold, time.time())
        try:
            found = await asyncio.to_thread(index.shortlist, partition, vector, threshold)
        except IndexError:  # rows went while it was looking
            return []
        found = [entry_id for entry_id in found if index.partition_of(entry_id) == partition]
        return index.confirmed(found, vector, threshold, time.time())

    async def _verified(self, near: list[Near], question: str) -> Found:
        texts = [question, *(item.row.question for item in near)]
        if max(map(len, texts)) > _LONG:
            decisions = await asyncio.to_thread(self._decide, near, question)
        else:
            decisions = self._decide(near, question)
        decisions = [self._learned(item, one) for item, one in zip(near, decisions, strict=True)]
        self._comparisons.add(question, near, decisions)
        accepted, grey = [], []
        for item, decision in zip(near, decisions, strict=True):
            candidate = Candidate(item.row.id, item.cosine, decision.score)
            if decision.verdict is Verdict.ACCEPT:
                accepted.append(candidate)
                continue
            if decision.verdict is Verdict.GREY:
                grey.append(candidate)
            by_score = decision.verdict is Verdict.GREY and decision.reason == "score"
            self._metrics.rejections.labels("grey" if by_score else decision.reason).inc()
        best = max(grey, key=lambda candidate: candidate.score or 0.0, default=None)
        return Found(tuple(accepted), None if accepted else best)

    def _decide(self, near: list[Near], question: str) -> list[Decision]:
        return [self._verifier.decide(item.cosine, item.row.question, question) for item in near]

    def _learned(self, item: Near, decision: Decision) -> Decision:
        """What is known of the entry goes before what the verifier says of any."""
        threshold = self.labels.threshold(item.row.id, time.time())
        learned = decision if threshold is None else decision.under(threshold)
        if learned is not decision:
            self._metrics.learned.labels(learned.verdict.value).inc()
        return learned

    async def _vector(self, question: str, patience: float) -> Vector | None:
        """From memory, or embedded once however many ask. None when too long, late or failed."""
        if question in self._memo:
            self._memo.move_to_end(question)
            return self._memo[question]
        task = self._running.get(question) or self._start_embedding(question)
        try:
            async with asyncio.timeout(patience):
                return await asyncio.shield(task)
        except TimeoutError:
            self._metrics.skips.labels("embedder_late").inc()
        except FerryError:
            self._metrics.skips.labels("embedder_failed").inc()
        return None

    def _start_embedding(self, question: str) -> asyncio.Task[Vector | None]:
        task = self._running[question] = asyncio.create_task(self._embed(question))
        task.add_done_callback(lambda done: self._embedded(question, done))
        return task

    def _embedded(self, question: str, task: asyncio.Task[Vector | None]) -> None:
        self._running.pop(question, None)
        if not task.cancelled():
            task.exception()  # whoever waits has it; nobody may be waiting

    async def _embed(self, question: str) -> Vector | None:
        started = time.perf_counter()
        try:
            (result,) = await self._embedder.embed([question])
        except FerryError:
            self._metrics.embedder_ready.set(0)
            raise
        self._metrics.embedder_ready.set(1)
        self._metrics.embed_seconds.observe(time.perf_counter() - started)
        if result.vector is None:
            self._metrics.skips.labels(Skip.TOO_LONG.value).inc()
        vector = None if result.vector is None else np.frombuffer(result.vector, dtype="<f4")
        self._memo[question] = vector
        if len(self._memo) > _MEMO:
            self._memo.popitem(last=False)
        return vector

    async def _load(self) -> None:
        try:
            self._fingerprint = (await self._embedder.load()).fingerprint
            self._metrics.embedder_ready.set(1)
        except FerryError as error:
            log.warning("cache: no semantic tier: %s", error)


def _stored(vector: Vector | None) -> bytes | None:
    """As entries carry it: half the bytes, and the index keeps fewer bits still."""
    return None if vector is None else vector.astype("<f2").tobytes()
