"""Putting the cache together for a server: one function, so that no caller knows its parts."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from ferry_api.runtime_config import CacheConfig
from ferry_runtime.cache.contract import Generate
from ferry_runtime.cache.control import CacheControl
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.layer import CacheLayer
from ferry_runtime.cache.local import LocalStore
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.semantic.tier import Embedder, SemanticTier
from ferry_runtime.cache.shared import SharedTier
from ferry_runtime.cache.tiers import Tiers
from ferry_runtime.generation import Answer, GenerationRequest
from ferry_runtime.store.address import StoreAddress
from ferry_runtime.store.redis_store import RedisStore

LOCAL_BYTES = 64 << 20  # answers kept in the process
INDEX_BYTES = 128 << 20  # vectors and questions; about 1.1 kB each


@dataclass(frozen=True, slots=True)
class Cache:
    layer: CacheLayer
    control: CacheControl


class DeferredCache:
    """Implements `AnswerCache` before there is a cache: a server answers from its first moment, and
    its store may take longer. Until `become` every request is generated."""

    def __init__(self) -> None:
        self._cache: Cache | None = None

    @property
    def control(self) -> CacheControl | None:
        return self._cache.control if self._cache is not None else None

    async def become(self, cache: Cache) -> None:
        await cache.layer.start()
        self._cache = cache

    async def start(self) -> None:
        """Nothing to do before `become`."""

    async def answer(self, request: GenerationRequest, generate: Generate) -> Answer:
        if self._cache is None:
            return await generate(request)
        return await self._cache.layer.answer(request, generate)

    async def move(self, address: StoreAddress) -> None:
        """The shared store's address or credentials have changed."""
        if self._cache is not None:
            await self._cache.layer.tiers.move(address)

    async def stop(self) -> None:
        cache, self._cache = self._cache, None
        if cache is not None:
            await cache.layer.stop()


def build_cache(
    *,
    namespace: str,
    config: Callable[[], CacheConfig],
    model: Callable[[], ServedModel | None],
    queue_timeout: Callable[[], float],
    idle: Callable[[], bool] = lambda: False,
    store: StoreAddress | None = None,
    embedder: Embedder | None = None,
    registry: CollectorRegistry | None = None,
) -> Cache:
    """``namespace`` keeps services apart that share a store: namespace and name of the resource.

    ``idle`` tells whether no client's request is open; see `shadow.Shadow`.
    Without ``store`` this process caches for itself; without ``embedder`` there is no semantic tier.
    The caller starts and stops ``layer``.
    """
    metrics = CacheMetrics(registry)
    entries = config().max_entries
    semantic = None
    if embedder is not None:
        semantic = SemanticTier(embedder, metrics, max_entries=entries, max_bytes=INDEX_BYTES)
    tiers = Tiers(
        LocalStore(entries, LOCAL_BYTES),
        metrics,
        secrets.token_hex(8),
        shared=SharedTier(RedisStore(store, namespace), metrics) if store is not None else None,
        index=semantic.index if semantic is not None else None,
        labels=semantic.labels if semantic is not None else None,
    )
    layer = CacheLayer(
        tiers,
        metrics,
        config=config,
        model=model,
        queue_timeout=queue_timeout,
        semantic=semantic,
        idle=idle,
    )
    return Cache(layer, CacheControl(layer))
