"""A prompt of 6,000 tokens arrives while six streams decode: do they stutter, do short ones wait?

A gap is the time between two tokens of one stream. Gaps are told apart by whether the long prompt
was being computed; short requests sent meanwhile have to answer before it does.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from bench.environment import read_environment
from bench.report import Report
from bench.server import serve
from bench.stats import quantile, spread
from bench.workload import Work, words

MANIFEST = Path(__file__).parent / "manifests" / "engine.yaml"
STREAMS = 6  # with the long prompt and a short request, eight
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
_LONG_TOKENS = 6000
_QUIET_SECONDS = 20.0
_STREAM_TOKENS = 1500  # more than they will get to send


@dataclass(slots=True)
class Round:
    quiet: list[float] = field(default_factory=list)  # gaps, seconds
    busy: list[float] = field(default_factory=list)
    shorts: list[float] = field(default_factory=list)  # first to last byte, seconds
    long_first_token: float = 0.0


def run(results: Path) -> None:
    report = Report("stall", read_environment())
    with serve(MANIFEST) as server:
        model = httpx.get(f"{server.url}/v1/models").json()["data"][0]["id"]
        rounds = [asyncio.run(_round(server.url, model, seed)) for seed in range(100, 101 + ROUNDS)][1:]
    for name in ("quiet", "busy"):
        gaps = [getattr(round_, name) for round_ in rounds]
        report.fact(f"gaps measured per round, {name}", [len(found) for found in gaps])
        for share in (0.5, 0.99):
            of = [1e3 * quantile(found, share) for found in gaps]
            report.fact(f"gap between tokens, {name}, p{100 * share:.0f} (ms)", spread(of))
    ratios = [quantile(round_.busy, 0.99) / quantile(round_.quiet, 0.99) for round_ in rounds]
    report.fact("p99 gap while the long prompt is computed, ratio (wanted: at most 3)", spread(ratios))
    report.fact("long prompt's first token (s)", spread([round_.long_first_token for round_ in rounds]))
    report.fact("short requests sent meanwhile", [len(round_.shorts) for round_ in rounds])
    report.fact("slowest short request (s)", spread([max(round_.shorts, default=0) for round_ in rounds]))
    report.write(results)


async def _round(url: str, model: str, seed: int) -> Round:
    rng, seen = random.Random(seed), Round()
    computing = asyncio.Event()
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        works = [Work(words(rng, 30), _STREAM_TOKENS, 0.0, 0) for _ in range(STREAMS)]
        streams = [asyncio.create_task(_listen(client, work.body(model), computing, seen)) for work in works]
        await asyncio.sleep(_QUIET_SECONDS)
        computing.set()
        long = asyncio.create_task(_first_token(client, _long_prompt(rng), model))
        while not long.done():
            sent = time.perf_counter()
            work = Work(words(rng, 20), 8, 0.0, 0)
            (await client.post("/v1/completions", json=work.body(model))).raise_for_status()
            if not long.done():
                seen.shorts.append(time.perf_counter() - sent)
        seen.long_first_token = await long
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    await asyncio.sleep(1)
    return seen


def _long_prompt(rng: random.Random) -> list[int]:
    return [rng.randrange(1000, 40_000) for _ in range(_LONG_TOKENS)]


async def _listen(
    client: httpx.AsyncClient, body: dict[str, object], computing: asyncio.Event, seen: Round
) -> None:
    last: float | None = None
    async with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            now = time.perf_counter()
            if last is not None:
                (seen.busy if computing.is_set() else seen.quiet).append(now - last)
            last = now
    raise RuntimeError("a stream ended before the measurement did")


async def _first_token(client: httpx.AsyncClient, prompt: list[int], model: str) -> float:
    sent = time.perf_counter()
    body = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "stream": True}
    async with client.stream("POST", "/v1/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {") and json.loads(line[6:])["choices"]:
                return time.perf_counter() - sent
    raise RuntimeError("the long prompt was not answered")
