"""A mounted Secret that changes while requests run: the new password is used without a restart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
from prometheus_client import CollectorRegistry
from tests.conftest import until
from tests.integration.runtime.cache.conftest import Generated, Server, build_request

from ferry_api import pod_layout
from ferry_api.runtime_config import CacheConfig, ColdConfig, HotConfig, ModelConfig, RuntimeConfig
from ferry_runtime import caching
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.caching import ServiceCache, StoreChoice
from ferry_runtime.embedding.client import EmbeddingClient
from ferry_runtime.embedding.messages import Loaded
from ferry_runtime.errors import EmbedderUnavailable
from ferry_runtime.generation import Answer, CacheOutcome, GenerationRequest
from ferry_runtime.settings import store_address

OLD, NEW = "0ld-w/ord?#1", "n3w@w:rd%2F+ &"
CONFIG = RuntimeConfig(
    cold=ColdConfig(model=ModelConfig(source="hf://a/b", served_name="served")),
    hot=HotConfig(cache=CacheConfig(enabled=True)),
)


@pytest.fixture(autouse=True)
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "_SECRET_SECONDS", 0.05)


class NoEmbedder(EmbeddingClient):
    """Exact answers are enough here, and a process less."""

    async def load(self) -> Loaded:
        raise EmbedderUnavailable("There is none.")


class Mounted:
    """A Secret as the kubelet mounts it: a folder behind a symbolic link that is swapped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._versions = 0

    def write(self, text: str) -> Path:
        self._versions += 1
        content = self._folder / f"..{self._versions}"
        content.mkdir(parents=True)
        (content / "value").write_text(f"{text}\n")
        link = self._folder / "..new"
        link.symlink_to(content.name)
        link.replace(self._folder / "..data")
        return self._folder / "..data" / "value"


@dataclass
class Load:
    """Clients that ask for something new all the time, and what became of it."""

    service: ServiceCache
    answered: int = 0
    failures: list[BaseException] = field(default_factory=list)

    async def ask(self, text: str) -> CacheOutcome:
        async def generate(request: GenerationRequest) -> Answer:
            return Generated(request, "Ferries float.")

        answer = await self.service.cache.answer(build_request(text), generate)
        async for _ in answer:
            pass
        return answer.cache.outcome

    async def run(self) -> None:
        while True:
            try:
                await self.ask(f"question {self.answered}")
                self.answered += 1
            except Exception as error:  # noqa: BLE001 (looked at by the test)
                self.failures.append(error)
            await asyncio.sleep(0.002)

    async def shared(self) -> bool:
        """Can the store be written to and read from?"""
        text = f"probe {self.answered}"
        await self.ask(text)
        layer = self.service.cache._cache.layer
        await layer.writer.drained()
        layer.tiers.local.purge(lambda _: True)
        return await self.ask(text) is CacheOutcome.EXACT


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Server]]:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(Server(tmp_path / name))
    for server in made:
        server.start("--requirepass", OLD)
        server.password = OLD
    yield made
    for server in made:
        server.kill()


@contextlib.asynccontextmanager
async def loaded(environment: dict[str, str]) -> AsyncIterator[Load]:
    service = ServiceCache(
        StoreChoice(address=lambda: store_address(environment)),
        namespace="test",
        config=lambda: CONFIG,
        model=lambda: ServedModel(name="m", weights="digest"),
        embedder=NoEmbedder(),
        registry=CollectorRegistry(),
    )
    await service.start()
    load = Load(service)
    clients = [asyncio.create_task(load.run()) for _ in range(4)]
    try:
        yield load
    finally:
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        await service.stop()


async def change_password(server: Server, *, dropping: bool) -> None:
    """``dropping``: the server also ends every connection, as one that is restarted does."""
    await server.order("CONFIG", "SET", "requirepass", NEW)
    server.password = NEW
    if dropping:
        await server.order("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@pytest.mark.parametrize("dropping", [False, True])
@pytest.mark.parametrize("first", ["server", "secret"])
async def test_a_rotated_password_is_used_without_a_restart(
    servers: list[Server], tmp_path: Path, caplog, first: str, dropping: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    server, secret = servers[0], Mounted(tmp_path / "secret")
    environment = {
        pod_layout.ENV_REDIS_URL: f"redis://127.0.0.1:{server.port}/0",
        pod_layout.ENV_REDIS_PASSWORD_FILE: str(secret.write(OLD)),
    }
    async with loaded(environment) as load:
        await until(load.shared)
        if first == "server":
            await change_password(server, dropping=dropping)
            before = load.answered
            await until(lambda: load.answered > before + 50)
            secret.write(NEW)
        else:
            secret.write(NEW)
            await until(lambda: "new credentials" in caplog.text)
            await change_password(server, dropping=dropping)
        await server.order("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await until(load.shared)
        assert load.failures == []
    assert OLD not in caplog.text
    assert NEW not in caplog.text


async def test_open_connections_outlive_a_secret_that_is_ahead_of_the_server(
    servers: list[Server], tmp_path: Path, caplog
) -> None:
    caplog.set_level(logging.INFO)
    server, secret = servers[0], Mounted(tmp_path / "secret")
    environment = {
        pod_layout.ENV_REDIS_URL: f"redis://127.0.0.1:{server.port}/0",
        pod_layout.ENV_REDIS_PASSWORD_FILE: str(secret.write(OLD)),
    }
    async with loaded(environment) as load:
        await until(load.shared)
        secret.write(NEW)
        await until(lambda: "new credentials" in caplog.text)
        assert await load.shared()
        assert load.service.status()["reachable"]


async def test_an_address_of_another_server_is_moved_to(
    servers: list[Server], tmp_path: Path, caplog
) -> None:
    caplog.set_level(logging.DEBUG)
    one, two = servers
    await two.order("CONFIG", "SET", "requirepass", NEW)
    two.password = NEW
    secret = Mounted(tmp_path / "secret")

    def url(server: Server) -> str:
        return f"redis://:{quote(server.password or '', safe='')}@127.0.0.1:{server.port}/0"

    environment = {pod_layout.ENV_REDIS_URL_FILE: str(secret.write(url(one)))}
    async with loaded(environment) as load:
        await until(load.shared)
        assert await two.order("DBSIZE") == 0
        secret.write(url(two))
        await until(lambda: "new address" in caplog.text)
        one.kill()
        await until(load.shared)
        assert await two.order("DBSIZE") > 0
        assert load.failures == []
    assert quote(NEW, safe="") not in caplog.text


async def test_a_secret_that_vanishes_or_is_spoilt_changes_nothing(
    servers: list[Server], tmp_path: Path, caplog
) -> None:
    server, secret = servers[0], Mounted(tmp_path / "secret")
    path = secret.write(OLD)
    environment = {
        pod_layout.ENV_REDIS_URL: f"redis://127.0.0.1:{server.port}/0",
        pod_layout.ENV_REDIS_PASSWORD_FILE: str(path),
    }
    async with loaded(environment) as load:
        await until(load.shared)
        for told, spoilt in enumerate(("", "two\nlines"), start=1):
            secret.write(spoilt)
            # It is looked at every so often: the next one must not come before.
            await until(lambda told=told: caplog.text.count("is used as it was before") == told)
            before = load.answered
            await until(lambda before=before: load.answered > before + 50)
            assert await load.shared()
        assert "must hold one line" in caplog.text
        assert caplog.text.count("is used as it was before") == 2
        secret.write(OLD)
        await server.order("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await until(load.shared)
