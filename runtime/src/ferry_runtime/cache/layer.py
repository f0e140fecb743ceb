"""The cache as the pipeline sees it: identity → exact → single-flight → semantic → generate."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from ferry_api.runtime_config import CacheConfig, CacheScope
from ferry_runtime.cache import policy
from ferry_runtime.cache.answers import Labelled, ReplayAnswer, hit
from ferry_runtime.cache.contract import Generate
from ferry_runtime.cache.entry import Entry
from ferry_runtime.cache.flight import Flight
from ferry_runtime.cache.follow import FlightAnswer
from ferry_runtime.cache.identity import Bypass, Identity, ServedModel, identify
from ferry_runtime.cache.judging import Judge, Verdict
from ferry_runtime.cache.labelling import Labeller, Source
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.orders import Orders
from ferry_runtime.cache.policy import Directives
from ferry_runtime.cache.publishing import Publisher
from ferry_runtime.cache.recording import Recorder
from ferry_runtime.cache.shadow import Shadow
from ferry_runtime.cache.tiers import Candidate, Semantic, Tiers
from ferry_runtime.cache.writer import Writer
from ferry_runtime.errors import NotCached
from ferry_runtime.generation import Answer, CacheInfo, CacheOutcome, ChoiceDelta, GenerationRequest

_JITTER = 0.1  # share of the TTL, so that entries of one burst do not expire in one burst


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request with what the cache found out about it before looking anything up."""

    request: GenerationRequest
    identity: Identity
    wish: Directives
    config: CacheConfig
    model: ServedModel

    @property
    def threshold(self) -> float:
        return max(self.config.similarity_threshold, self.request.cache_threshold or 0.0)

    @property
    def exact_only(self) -> bool:
        """Nothing but the same question is as near as this."""
        return self.threshold >= 1.0

    @property
    def shareable(self) -> bool:
        """Would any other request's answer do? Only then may it follow one."""
        raised = self.threshold > self.config.similarity_threshold
        return not (self.wish.particular or self.wish.no_store or raised)


@dataclass(frozen=True, slots=True)
class _Looked:
    """``doubtful``: a candidate that may or may not have been right; the answer to come will tell."""

    answer: ReplayAnswer | None = None
    doubtful: Candidate | None = None


class CacheLayer:
    """Implements `AnswerCache`. ``config`` and ``model`` are asked anew for every request: the one
    is reread while serving, the other is unknown until the model is loaded."""

    def __init__(
        self,
        tiers: Tiers,
        metrics: CacheMetrics,
        *,
        config: Callable[[], CacheConfig],
        model: Callable[[], ServedModel | None],
        queue_timeout: Callable[[], float],
        semantic: Semantic | None = None,
        idle: Callable[[], bool] = lambda: False,
    ) -> None:
        """``idle``: no client's request is open, so that something may be generated for ourselves."""
        self.tiers = tiers
        self.semantic = semantic
        self.metrics = metrics
        self._config = config
        self._model = model
        self._queue_timeout = queue_timeout
        self._flights: dict[bytes, Flight] = {}
        self.orders = Orders(tiers)
        judge = Judge(semantic)
        self.labeller = Labeller(tiers, metrics, semantic, judge, idle)
        self.shadow = Shadow(judge, metrics, idle, on_judged=self._judged)
        publisher = Publisher(tiers, semantic, lambda: self._config().max_entries)
        self.writer = Writer(publisher, metrics)
        metrics.waiters.set_function(
            lambda: sum(max(0, flight.listeners - 1) for flight in self._flights.values())
        )

    async def start(self) -> None:
        if self.semantic is not None and self._config().enabled:
            self.semantic.wake()
        await self.tiers.start()
        await self.writer.start()
        await self.shadow.start()
        await self.labeller.start()

    async def stop(self) -> None:
        await self.shadow.stop()
        await self.labeller.stop()
        await self.writer.stop()
        await self.orders.stop()
        if self.semantic is not None:
            await self.semantic.stop()
        await self.tiers.stop()

    async def answer(self, request: GenerationRequest, generate: Generate) -> Answer:
        asked = self._ask(request)
        if isinstance(asked, Bypass):
            self.metrics.bypasses.labels(asked.reason).inc()
            if policy.directives(request.cache_control).only_if_cached:
                raise NotCached("This request is not one that the cache may answer.")
            return Labelled(await generate(request), CacheInfo())
        if not asked.wish.no_cache:
            found = self._at_hand(asked)
            if found is not None:
                return found
            self._expect(asked)
        if asked.wish.only_if_cached:
            looked = await self._look_up(asked)
            if looked.answer is None:
                raise NotCached("No cached answer fits this request.")
            return looked.answer
        return await self._fly(asked, generate)

    def _ask(self, request: GenerationRequest) -> _Asked | Bypass:
        config, model = self._config(), self._model()
        if not config.enabled:
            return Bypass("disabled")
        if model is None:
            return Bypass("no_model")
        if not policy.sampled_allowed(request, config.sampled_requests):
            return Bypass("sampled")
        if self.semantic is not None:
            self.semantic.wake()
        embedder = self.semantic.fingerprint if self.semantic is not None else ""
        shared = config.scope is CacheScope.SHARED
        identity = identify(request, model, shared=shared, embedder=embedder)
        if isinstance(identity, Bypass):
            return identity
        return _Asked(request, identity, policy.directives(request.cache_control), config, model)

    def _at_hand(self, asked: _Asked) -> ReplayAnswer | None:
        now = time.time()
        entry = self.tiers.at_hand(asked.identity.entry_id, now)
        if entry is None or not self._fits_exactly(entry, asked, now):
            return None
        self.metrics.lookups.labels("exact_local", "hit").inc()
        return hit(entry, asked.request.id, now)

    def _fits_exactly(self, entry: Entry, asked: _Asked, now: float) -> bool:
        owned = asked.config.scope is CacheScope.SHARED or entry.owner == asked.request.tenant
        same = entry.exact == asked.identity.exact and len(entry.choices) == asked.request.n
        return owned and same and policy.serves_exactly(entry, now, asked.wish.max_age)

    async def _look_up(self, asked: _Asked) -> _Looked:
        """The tiers that cost a wait. Never raises on the cache's own account."""
        now = time.time()
        identity = asked.identity
        entry = await self.tiers.fetch(identity.entry_id, now)
        if entry is not None and self._fits_exactly(entry, asked, now):
            self.metrics.lookups.labels("exact", "hit").inc()
            return _Looked(hit(entry, asked.request.id, now))
        self.metrics.lookups.labels("exact", "miss").inc()
        return await self._look_up_semantically(asked)

    async def _look_up_semantically(self, asked: _Asked) -> _Looked:
        if self.semantic is None or not asked.request.user_text:
            self.metrics.skips.labels("no_question").inc()
            return _Looked()
        if asked.exact_only:
            self.metrics.skips.labels("threshold").inc()
            return _Looked()
        looked = await self._find(asked, self.semantic)
        if looked.answer is None:
            self.metrics.without_hit.inc()
        else:
            self.metrics.without_hit.set(0)
        return looked

    async def _find(self, asked: _Asked, semantic: Semantic) -> _Looked:
        identity = asked.identity
        if identity.partition is None or identity.question is None:
            self.metrics.skips.labels("no_partition" if semantic.fingerprint else "no_embedder").inc()
            return _Looked()
        found = await semantic.find(
            identity.question, identity.partition, asked.threshold, asked.config.verifier
        )
        for candidate in found.accepted:
            now = time.time()
            entry = await self.tiers.fetch(candidate.entry_id, now)
            if entry is not None and self._fits_semantically(entry, asked, now):
                self.metrics.lookups.labels("semantic", "hit").inc()
                return _Looked(hit(entry, asked.request.id, now, candidate))
        self.metrics.lookups.labels("semantic", "miss").inc()
        return _Looked(doubtful=found.doubtful)

    def _fits_semantically(self, entry: Entry, asked: _Asked, now: float) -> bool:
        owned = asked.config.scope is CacheScope.SHARED or entry.owner == asked.request.tenant
        same = entry.partition == asked.identity.partition and len(entry.choices) == asked.request.n
        return owned and same and policy.serves_semantically(entry, asked.request, now, asked.wish.max_age)

    async def _fly(self, asked: _Asked, generate: Generate) -> Answer:
        """Lead a generation or follow the one that is under way."""
        key = asked.identity.exact
        flight = self._flights.get(key) if asked.shareable else None
        if flight is None:
            flight = self._new_flight(asked, generate)
        else:
            self.metrics.coalesced.inc()
        answer = FlightAnswer(
            flight,
            asked.request,
            queue_timeout=self._queue_timeout(),
            on_promoted=self.metrics.promotions.inc,
        )
        try:
            await answer.opened()
        except BaseException:
            await answer.aclose()
            raise
        return answer

    def _new_flight(self, asked: _Asked, generate: Generate) -> Flight:
        key = asked.identity.exact
        looked = _Looked()

        async def open_answer(request: GenerationRequest) -> Answer:
            nonlocal looked
            mine = replace(asked, request=request)
            looked = _Looked() if asked.wish.no_cache else await self._look_up(mine)
            found = looked.answer
            if found is not None:
                if found.cache.outcome is CacheOutcome.SEMANTIC:
                    self.shadow.served(request, found.entry, found.score, generate)
                return found
            kept = None if asked.wish.no_store else asked.identity.entry_id
            info = CacheInfo(outcome=CacheOutcome.MISS, entry_id=kept)
            answer = Labelled(await generate(request), info)
            self._prepare(asked)
            return answer

        def finished(request: GenerationRequest, answer: Answer, log: list[ChoiceDelta]) -> None:
            if answer.cache.outcome is CacheOutcome.MISS and not asked.wish.no_store:
                self._keep(request, asked, log)
                if looked.doubtful is not None:
                    self.labeller.doubted(looked.doubtful, asked.identity.entry_id)

        def empty(flight: Flight) -> None:
            if self._flights.get(key) is flight:
                del self._flights[key]

        flight = Flight(open_answer, finished, empty)
        if not asked.wish.no_store and key not in self._flights:
            self._flights[key] = flight
        return flight

    async def _judged(self, entry: Entry, score: float | None, verdict: Verdict) -> None:
        await self.labeller.judged(entry, score, verdict, Source.SHADOW)

    def _expect(self, asked: _Asked) -> None:
        """The embedding is on its way before the store is asked, and both take their time at once."""
        identity = asked.identity
        if asked.exact_only:
            return
        if self.semantic is not None and identity.partition and identity.question:
            self.semantic.expect(identity.question, identity.partition)

    def _prepare(self, asked: _Asked) -> None:
        """Now that the request is admitted: its vector will be needed once the answer is there."""
        identity = asked.identity
        if self.semantic is not None and identity.partition and identity.question and not asked.wish.no_store:
            self.semantic.prepare(identity.question)

    def _keep(self, request: GenerationRequest, asked: _Asked, log: list[ChoiceDelta]) -> None:
        entry = self._entry(request, asked, log)
        if entry is None or not policy.storable(entry):
            return
        self.tiers.resize(asked.config.max_entries)
        if not self.tiers.keep(entry):
            self.metrics.writes.labels("too_large").inc()
            return
        self.writer.submit(entry, self.tiers.local.purges)

    def _entry(self, request: GenerationRequest, asked: _Asked, log: list[ChoiceDelta]) -> Entry | None:
        recorder = Recorder(request.n)
        for item in log:
            recorder.add(item)
        choices = recorder.finished()
        if choices is None:
            return None
        now = time.time()
        identity = asked.identity
        jitter = random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - spreads load, guards nothing
        entry = Entry(
            id=identity.entry_id,
            exact=identity.exact,
            owner=request.tenant,
            model=asked.model.name,
            created=now,
            expires=now + asked.config.ttl_seconds * jitter,
            choices=choices,
            cost_seconds=time.monotonic() - request.arrival,
        )
        if identity.partition is None or identity.question is None or not entry.finished_by_itself:
            return entry
        return msgspec.structs.replace(entry, partition=identity.partition, question=identity.question)
