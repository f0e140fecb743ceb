"""The cache of a service with the store behind it: embedded, given, or none.

The service starts and serves whatever becomes of either.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from ferry_api.runtime_config import ColdConfig, EngineType, RuntimeConfig
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.setup import DeferredCache, build_cache
from ferry_runtime.cache.tasks import end
from ferry_runtime.embedding.client import EmbeddingClient
from ferry_runtime.engine.protocol import ModelInfo
from ferry_runtime.errors import ConfigurationError, SecretMissing, StoreUnavailable
from ferry_runtime.store.address import StoreAddress
from ferry_runtime.store.embedded import EmbeddedStore

logger = logging.getLogger(__name__)

_SECRET_SECONDS = 5.0  # between two looks at a mounted Secret


def served_model(cold: ColdConfig, digest: str, info: ModelInfo) -> ServedModel:
    """What answers, for the cache's identity. ``digest`` identifies weights, tokenizer, chat template
    and configuration; of an upstream's weights only the name is known here."""
    model, engine = cold.model, cold.engine
    upstream = engine.type is EngineType.OPENAI_COMPATIBLE
    return ServedModel(
        name=model.served_name,
        weights=digest,
        dtype=info.dtype,
        quantization=model.quantization.value,
        numerics=info.numerics,
        engine=f"{engine.type.value} {engine.upstream_url or ''} {info.device}",
        upstream_model=(engine.upstream_model or model.served_name) if upstream else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreChoice:
    """``address`` is asked at start, and again while serving for a Secret that changes: None is no store
    of one's own, SecretMissing one whose mounted Secret is not there (yet). ``embedded``: start one
    where there is none."""

    address: Callable[[], StoreAddress | None]
    embedded: bool = False


class ServiceCache:
    """``cache`` generates everything until `start` has put one together."""

    def __init__(
        self,
        choice: StoreChoice,
        *,
        namespace: str,
        config: Callable[[], RuntimeConfig],
        model: Callable[[], ServedModel | None],
        embedder: EmbeddingClient,
        registry: CollectorRegistry,
        idle: Callable[[], bool] = lambda: False,
    ) -> None:
        self.cache = DeferredCache()
        self._choice = choice
        self._namespace = namespace
        self._config = config
        self._model = model
        self._embedder = embedder
        self._registry = registry
        self._idle = idle
        self._embedded: EmbeddedStore | None = None
        self._watch: asyncio.Task[None] | None = None
        self._state = "none"

    async def start(self) -> None:
        """Never fails because a store cannot be had."""
        address = None
        try:
            address = self._choice.address()
        except SecretMissing as error:
            logger.warning("%s Nothing is cached until it is there.", error)
            self._state = "waiting"
        else:
            if address is None:
                await self._use(await self._start_embedded() if self._choice.embedded else None)
                return
            await self._use_own(address)
        self._watch = asyncio.create_task(self._follow_secret(address), name="store-secret")

    async def stop(self) -> None:
        await end(self._watch)
        await self.cache.stop()
        if self._embedded is not None:
            await self._embedded.stop()

    def status(self) -> Mapping[str, Any]:
        """For /health: where answers are kept besides this process, and whether that answers."""
        control = self.cache.control
        reachable = control.store_reachable if control is not None else None
        return {"state": self._state} if reachable is None else {"state": self._state, "reachable": reachable}

    async def _start_embedded(self) -> StoreAddress | None:
        try:
            self._embedded = await EmbeddedStore.start()
        except StoreUnavailable as error:
            logger.warning("%s Answers are kept in this process alone.", error)
            return None
        self._state = "embedded"
        return self._embedded.address

    async def _follow_secret(self, address: StoreAddress | None) -> None:
        """A Secret that is mounted as optional appears in the pod within a minute of being made, and a
        changed one within a minute too: neither needs a restart. One that is gone or wrong changes
        nothing, for the connections that are open may well go on working."""
        problem = ""
        while True:
            await asyncio.sleep(_SECRET_SECONDS)
            try:
                current = self._choice.address()
            except ConfigurationError as error:
                waiting = address is None and isinstance(error, SecretMissing)
                if not waiting and str(error) != problem:
                    logger.warning("%s The store is used as it was before.", error)
                problem = str(error)
                continue
            problem = ""
            if current is None or current == address:
                continue
            if address is None:
                await self._use_own(current)
            else:
                what = "credentials" if current.place == address.place else "address"
                logger.info("cache: new %s for store %s", what, current.label)
                await self.cache.move(current)
            address = current

    async def _use_own(self, address: StoreAddress) -> None:
        self._state = "external"
        await self._use(address)

    async def _use(self, address: StoreAddress | None) -> None:
        # Whether the cache is used is a hot setting, asked for every request.
        cache = build_cache(
            namespace=self._namespace,
            config=lambda: self._config().hot.cache,
            model=self._model,
            queue_timeout=lambda: self._config().hot.queue.timeout_seconds,
            idle=self._idle,
            store=address,
            embedder=self._embedder,
            registry=self._registry,
        )
        await self.cache.become(cache)
