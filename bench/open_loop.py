"""An open loop: requests arrive when the clock says so, whether or not the server keeps up."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import httpx

from bench.workload import Work, words

SHORT, LONG = "short", "long"

# A request that has no answer by then is hung: longer than any queue or answer may take.
_HUNG_SECONDS = 400.0
_FILLING_SHARE = 0.25


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
    """Nine short requests to one long, exactly so in every ten, at random times of an even rate.

    (A Poisson process whose count is given: the load is what it claims to be in every round.)
    """
    rng = random.Random(seed)
    tens = max(1, round(rate * seconds / 10))
    times = sorted(rng.uniform(0.0, seconds) for _ in range(10 * tens))
    return [Arrival(at, *drawn) for at, drawn in zip(times, _mix(rng, tens), strict=True)]


def endless(seed: int) -> Iterator[Arrival]:
    """The same mix for closed loops, whose clients ignore ``at``."""
    rng = random.Random(seed)
    while True:
        yield from (Arrival(0.0, *drawn) for drawn in _mix(rng, 1))


def _mix(rng: random.Random, tens: int) -> Iterator[tuple[str, Work]]:
    for _ in range(tens):
        long = rng.randrange(10)
        for place in range(10):
            yield (LONG, _long(rng)) if place == long else (SHORT, _short(rng))


def _short(rng: random.Random) -> Work:
    return Work(words(rng, rng.randint(10, 30)), rng.randint(6, 12), 0.8, rng.randrange(2**31))


def _long(rng: random.Random) -> Work:
    return Work(words(rng, 180), rng.randint(60, 80), 0.0, rng.randrange(2**31))


async def play(url: str, model: str, schedule: Sequence[Arrival]) -> list[Result]:
    """Send every request at its time; returns when each has ended in some way."""
    async with _client(url) as client:
        started = time.perf_counter()

        async def one(arrival: Arrival) -> Result:
            await asyncio.sleep(max(0.0, arrival.at - (time.perf_counter() - started)))
            return await send(client, model, arrival)

        return await asyncio.gather(*(one(arrival) for arrival in schedule))


async def capacity(url: str, model: str, *, clients: int, seconds: float, seed: int) -> float:
    """Requests of the mix per second that the server gets done when it always has enough to do.

    Counted from when the first have come through until the clients stop sending: at both ends it has
    less to do.
    """
    pending, done = endless(seed), list[float]()
    started = time.perf_counter()

    async def worker(client: httpx.AsyncClient) -> None:
        for arrival in pending:
            if time.perf_counter() - started > seconds:
                return
            if (await send(client, model, arrival)).outcome == "finished":
                done.append(time.perf_counter() - started)

    async with _client(url) as client, asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(worker(client))
    begin = _FILLING_SHARE * seconds
    return sum(begin < at <= seconds for at in done) / (seconds - begin)


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
