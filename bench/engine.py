"""Throughput of the engine over HTTP beside transformers' generate(), alone and in padded batches.

Each round measures one after the other: Ferry with eight clients, the padded batch of eight, one by
one; the ratios are taken within a round, so a machine that drifts does not bend them.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import httpx

from bench.environment import read_environment
from bench.model import model_directory
from bench.peers import transformers_peer
from bench.report import Report
from bench.server import Server, serve
from bench.stats import quantile, spread
from bench.workload import Work, mixed

MANIFEST = Path(__file__).parent / "manifests" / "engine.yaml"
CLIENTS = 8
REQUESTS = 96  # many, since towards the end fewer than eight are open
ROUNDS = 3
ALONE = 10  # one by one is slow: the first few requests of the round stand for all


async def _drive(server: Server, model: str, works: list[Work], livez: list[float]) -> float:
    """All works through eight clients while /livez is asked 20 times a second; tokens per second."""
    pending = iter(works)
    done = asyncio.Event()
    tokens = 0

    async with httpx.AsyncClient(base_url=server.url, timeout=300) as client:

        async def worker() -> None:
            nonlocal tokens
            for work in pending:
                response = await client.post("/v1/completions", json=work.body(model))
                response.raise_for_status()
                produced = response.json()["usage"]["completion_tokens"]
                if produced != work.max_tokens:
                    raise RuntimeError(f"asked for {work.max_tokens} tokens, got {produced}")
                tokens += produced

        async def probe() -> None:
            async with httpx.AsyncClient(base_url=server.url) as prober:
                while not done.is_set():
                    started = time.perf_counter()
                    (await prober.get("/livez")).raise_for_status()
                    livez.append(time.perf_counter() - started)
                    await asyncio.sleep(0.05)

        prober = asyncio.create_task(probe())
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(worker())
        elapsed = time.perf_counter() - started
        done.set()
        await prober
    return tokens / elapsed


def _weights_megabytes(directory: Path) -> float:
    """What the engine holds of a checkpoint with a tied output layer: that table twice."""
    config = json.loads((directory / "config.json").read_text())
    stored = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
    return (stored + 4 * config["vocab_size"] * config["hidden_size"]) / 1e6


def run(results: Path) -> None:
    report = Report("engine", read_environment())
    threads = len(os.sched_getaffinity(0))
    livez: list[float] = []
    ferry, padded, alone = [], [], []
    with serve(MANIFEST) as server:
        model = httpx.get(f"{server.url}/v1/models").json()["data"][0]["id"]
        health = httpx.get(f"{server.url}/health").json()
        report.fact("ready after start with cached weights (s)", f"{server.ready_seconds:.1f}")
        report.fact("engine", health["engine"])
        weights = model_directory()
        with transformers_peer(weights, threads) as peer:
            asyncio.run(_drive(server, model, mixed(16, seed=999), []))
            for index in range(ROUNDS):
                works = mixed(REQUESTS, seed=index)
                ferry.append(asyncio.run(_drive(server, model, works, livez)))
                padded.append(peer.tokens_per_second(works, CLIENTS))
                alone.append(peer.tokens_per_second(works[:ALONE], 1))
        memory = server.resident_megabytes()
        memory["of it weights"] = _weights_megabytes(weights)
        metrics = httpx.get(f"{server.url}/metrics").text
    report.fact("tokens/s, Ferry, 8 clients over HTTP", spread(ferry))
    report.fact("tokens/s, transformers padded batch of 8", spread(padded))
    report.fact("tokens/s, transformers one by one", spread(alone))
    report.fact("ratio to padded batch", spread([a / b for a, b in zip(ferry, padded, strict=True)]))
    report.fact("ratio to one by one", spread([a / b for a, b in zip(ferry, alone, strict=True)]))
    report.fact(
        f"/livez under load, {len(livez)} requests (ms)",
        f"p50 {quantile(livez, 0.5) * 1e3:.1f}, p99 {quantile(livez, 0.99) * 1e3:.1f}",
    )
    report.fact("resident memory (MB)", {role: round(size) for role, size in memory.items()})
    report.section(
        "decode batches", [line for line in metrics.splitlines() if line.startswith("ferry_batch_size")]
    )
    report.write(results)
