"""An open loop: requests arrive when the clock says so, whether or not the server keeps up."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from bench.workload import Work, words

SHORT, LONG = "short", "long"
_LONG_SHARE = 0.1

# A request that has no answer by then is hung: longer than any queue or answer may take.
_HUNG_SECONDS = 400.0


@dataclass(frozen=True, slots=True)
class Arrival:
    at: float  # seconds after the start
    kind: str
    work: Work


@dataclass(frozen=True, slots=True)
class Result:
    """``outcome``: finished, refused (429, 503), expired (504), failed, lost or hung."""

    kind: str
    outcome: str
    at: float
    seconds: float
    tokens: int

    @property
    def ended(self) -> float:
        return self.at + self.seconds


def arrivals(rate: float, seconds: float, seed: int) -> list[Arrival]:
    """Poisson arrivals, nine short requests to one long."""
    rng, at, found = random.Random(seed), 0.0, []
    while (at := at + rng.expovariate(rate)) < seconds:
        found.append(_arrival(at, rng))
    return found


def endless(seed: int) -> list[Arrival]:
    """The same mix for closed loops, whose clients ignore ``at``."""
    rng = random.Random(seed)
    return [_arrival(0.0, rng) for _ in range(5000)]


def _arrival(at: float, rng: random.Random) -> Arrival:
    if rng.random() < _LONG_SHARE:
        work = Work(words(rng, 400), rng.randint(120, 160), 0.0, rng.randrange(2**31))
        return Arrival(at, LONG, work)
    work = Work(words(rng, rng.randint(10, 40)), rng.randint(8, 24), 0.8, rng.randrange(2**31))
    return Arrival(at, SHORT, work)


async def play(url: str, model: str, schedule: Sequence[Arrival]) -> list[Result]:
    """Send every request at its time; returns when each has ended in some way."""
    async with _client(url) as client:
        started = time.perf_counter()

        async def one(arrival: Arrival) -> Result:
            await asyncio.sleep(max(0.0, arrival.at - (time.perf_counter() - started)))
            return await send(client, model, arrival)

        return await asyncio.gather(*(one(arrival) for arrival in schedule))


async def capacity(url: str, model: str, *, clients: int, seconds: float, seed: int) -> float:
    """Requests of the mix per second that the server gets done when it always has enough to do."""
    pending, done = iter(endless(seed)), 0
    started = time.perf_counter()

    async def worker(client: httpx.AsyncClient) -> None:
        nonlocal done
        for arrival in pending:
            if time.perf_counter() - started > seconds:
                return
            result = await send(client, model, arrival)
            done += result.outcome == "finished"

    async with _client(url) as client, asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(worker(client))
    return done / (time.perf_counter() - started)


async def send(client: httpx.AsyncClient, model: str, arrival: Arrival) -> Result:
    sent = time.perf_counter()
    outcome, tokens = "lost", 0
    try:
        async with asyncio.timeout(_HUNG_SECONDS):
            response = await client.post("/v1/completions", json=arrival.work.body(model))
        outcome = _OUTCOMES.get(response.status_code, "failed")
        if outcome == "finished":
            tokens = response.json()["usage"]["completion_tokens"]
    except TimeoutError:
        outcome = "hung"
    except httpx.TransportError:
        pass
    return Result(arrival.kind, outcome, arrival.at, time.perf_counter() - sent, tokens)


_OUTCOMES = {200: "finished", 429: "refused", 503: "refused", 504: "expired"}


def count(results: Sequence[Result], **fields: str) -> int:
    return sum(all(getattr(result, key) == value for key, value in fields.items()) for result in results)


def outcomes(results: Sequence[Result]) -> dict[str, int]:
    return dict(sorted(Counter(result.outcome for result in results).items()))


def _client(url: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
    return httpx.AsyncClient(base_url=url, timeout=None, limits=limits)  # noqa: S113 (ours is above)
