"""A service's cache finds its store, waits for it, or does without."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry
from tests.conftest import until

from ferry_api.runtime_config import ColdConfig, ModelConfig, RuntimeConfig
from ferry_runtime import caching
from ferry_runtime.caching import ServiceCache, StoreChoice
from ferry_runtime.embedding.client import EmbeddingClient
from ferry_runtime.errors import SecretMissing, StoreUnavailable
from ferry_runtime.store.address import StoreAddress
from ferry_runtime.store.embedded import EmbeddedStore

CONFIG = RuntimeConfig(cold=ColdConfig(model=ModelConfig(source="hf://a/b", served_name="served")))


@asynccontextmanager
async def _started(address: Callable[[], StoreAddress | None], embedded: bool) -> AsyncIterator[ServiceCache]:
    embedder = EmbeddingClient()
    service = ServiceCache(
        StoreChoice(address=address, embedded=embedded),
        namespace="test",
        config=lambda: CONFIG,
        model=lambda: None,
        embedder=embedder,
        registry=CollectorRegistry(),
    )
    await service.start()
    try:
        yield service
    finally:
        await service.stop()
        await embedder.stop()


def _shared(service: ServiceCache) -> bool:
    control = service.cache.control
    assert control is not None
    return bool(control.stats()["store"]["shared"])


async def test_an_embedded_store_is_started_and_ended() -> None:
    async with _started(lambda: None, embedded=True) as service:
        assert service.status() == {"state": "embedded", "reachable": True}
        assert _shared(service)


async def test_a_given_store_is_used(valkey: EmbeddedStore) -> None:
    async with _started(lambda: valkey.address, embedded=True) as service:
        assert service.status() == {"state": "external", "reachable": True}
        assert _shared(service)


async def test_without_a_store_the_process_keeps_answers() -> None:
    async with _started(lambda: None, embedded=False) as service:
        assert service.status() == {"state": "none"}
        assert not _shared(service)


async def test_an_embedded_store_that_fails_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> EmbeddedStore:
        raise StoreUnavailable("The embedded store could not be started.")

    monkeypatch.setattr(EmbeddedStore, "start", fail)

    async with _started(lambda: None, embedded=True) as service:
        assert service.status() == {"state": "none"}
        assert not _shared(service)


async def test_a_secret_that_comes_later_is_waited_for(
    valkey: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching, "_SECRET_SECONDS", 0.01)
    mounted = False

    def address() -> StoreAddress:
        if not mounted:
            raise SecretMissing("The secret file password cannot be read.")
        return valkey.address

    async with _started(address, embedded=False) as service:
        assert service.status() == {"state": "waiting"}
        assert service.cache.control is None
        mounted = True
        await until(lambda: service.cache.control is not None)
        assert service.status() == {"state": "external", "reachable": True}
        assert _shared(service)
