"""Users come one by one, 1 to 50, and stay: adaptive batching beside the declared constants.

Each user sends a short streamed request, waits for the answer, thinks, and sends the next. Times to
the first token are told apart by how many users there were when the request was sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.environment import read_environment
from bench.report import Report
from bench.server import serve
from bench.stats import quantile, spread
from bench.workload import Work, words

FOLDER = Path(__file__).parent / "manifests"
MODES = {"fixed": FOLDER / "ramp-fixed.yaml", "adaptive": FOLDER / "ramp-adaptive.yaml"}
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "100"))
USERS = 50
BANDS = {"1 to 5 users": (1, 5), "6 to 20 users": (6, 20), "21 to 50 users": (21, 50)}
_THINKING_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    users: int
    first_token: float
    whole: float
    tokens: int


def run(results: Path) -> None:
    report = Report("ramp", read_environment())
    seen: dict[str, list[list[Seen]]] = {mode: [] for mode in MODES}
    with serve(MODES["fixed"]) as fixed, serve(MODES["adaptive"]) as adaptive:
        model = httpx.get(f"{fixed.url}/v1/models").json()["data"][0]["id"]
        servers = [("fixed", fixed.url), ("adaptive", adaptive.url)]
        for index in range(ROUNDS):
            for mode, url in servers if index % 2 else reversed(servers):
                seen[mode].append(asyncio.run(_ramp(url, model, seed=index)))
    for band, (fewest, most) in BANDS.items():
        for mode, rounds in seen.items():
            for share in (0.5, 0.95):
                times = [_first_token(found, fewest, most, share) for found in rounds]
                report.fact(f"{band}, {mode}: first token, p{share * 100:.0f} (s)", spread(times))
    for mode, rounds in seen.items():
        report.fact(f"{mode}: tokens/s", spread([sum(s.tokens for s in found) / SECONDS for found in rounds]))
    report.write(results)


def _first_token(found: list[Seen], fewest: int, most: int, share: float) -> float:
    return quantile([s.first_token for s in found if fewest <= s.users <= most], share)


async def _ramp(url: str, model: str, seed: int) -> list[Seen]:
    started, seen = time.perf_counter(), list[Seen]()
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:

        async def user(number: int) -> None:
            rng = random.Random(1000 * seed + number)
            await asyncio.sleep(number * SECONDS / USERS)
            while time.perf_counter() - started < SECONDS:
                users = 1 + int((time.perf_counter() - started) * USERS / SECONDS)
                work = Work(words(rng, 20), 16, 0.0, rng.randrange(2**31))
                seen.append(await _stream(client, model, work, users))
                await asyncio.sleep(rng.expovariate(1 / _THINKING_SECONDS))

        async with asyncio.TaskGroup() as group:
            for number in range(USERS):
                group.create_task(user(number))
    return seen


async def _stream(client: httpx.AsyncClient, model: str, work: Work, users: int) -> Seen:
    sent, first = time.perf_counter(), None
    async with client.stream(
        "POST", "/v1/completions", json={**work.body(model), "stream": True}
    ) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            data = line.removeprefix("data: ")
            if data and data != "[DONE]" and first is None and json.loads(data)["choices"]:
                first = time.perf_counter() - sent
    whole = time.perf_counter() - sent
    return Seen(users, whole if first is None else first, whole, work.max_tokens)
