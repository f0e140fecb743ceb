"""Ten minutes at 1.5 times capacity: does anything grow? Memory and file descriptors of the HTTP
process and of the engine, sampled every second; slopes over the time after the warm-up.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from bench.environment import read_environment
from bench.open_loop import Arrival, Result, arrivals, capacity, outcomes, play
from bench.report import Report
from bench.server import Server, keys_and_values, serve

MANIFEST = Path(__file__).parent / "manifests" / "soak.yaml"
OVERLOAD = 1.5
SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
_WARM_UP_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    http_bytes: int
    engine_bytes: int
    rest_bytes: int  # of the engine without keys and values
    descriptors: int


def run(results: Path) -> None:
    report = Report("soak", read_environment())
    with serve(MANIFEST) as server:
        model = httpx.get(f"{server.url}/v1/models").json()["data"][0]["id"]
        rate = asyncio.run(capacity(server.url, model, clients=24, seconds=30, seed=999))
        schedule = arrivals(OVERLOAD * rate, SECONDS, seed=1)
        report.fact("capacity (requests/s of the mix)", f"{rate:.2f}")
        played, samples = asyncio.run(_play_and_sample(server, model, schedule))
    report.fact(f"outcomes of {len(schedule)} requests", outcomes(played))
    settled = samples[int(len(samples) * _WARM_UP_SHARE) :]
    for name in ("http_bytes", "engine_bytes", "rest_bytes"):
        slope = _slope(settled, name) * 3600 / 1e6
        report.fact(f"{name}, slope after warm-up (MB/hour)", f"{slope:+.1f}")
        report.fact(f"{name}, first to last (MB)", _ends(settled, name, 1e6))
    report.fact("file descriptors of the HTTP process, most", max(sample.descriptors for sample in samples))
    report.fact("file descriptors of the HTTP process, at the end", samples[-1].descriptors)
    report.fact("file descriptors of the HTTP process, at the start", samples[0].descriptors)
    report.write(results)


async def _play_and_sample(
    server: Server, model: str, schedule: list[Arrival]
) -> tuple[list[Result], list[Sample]]:
    samples: list[Sample] = []
    sampler = asyncio.create_task(_sample(server, samples))
    played = await play(server.url, model, schedule)
    await asyncio.sleep(5)  # what was held only for requests is let go of
    sampler.cancel()
    return played, samples


async def _sample(server: Server, samples: list[Sample]) -> None:
    root, started = psutil.Process(server.pid), time.monotonic()
    engine = next(child for child in root.children(recursive=True) if "engine" in " ".join(child.cmdline()))
    while True:
        samples.append(
            Sample(
                time.monotonic() - started,
                root.memory_info().rss,
                engine.memory_info().rss,
                engine.memory_info().rss - int(1e6 * keys_and_values(engine)),
                root.num_fds(),
            )
        )
        await asyncio.sleep(1)


def _slope(samples: list[Sample], name: str) -> float:
    """Least squares, per second."""
    times = [sample.at for sample in samples]
    values = [float(getattr(sample, name)) for sample in samples]
    mean_time, mean_value = sum(times) / len(times), sum(values) / len(values)
    spread = sum((t - mean_time) ** 2 for t in times)
    return sum((t - mean_time) * (v - mean_value) for t, v in zip(times, values, strict=True)) / spread


def _ends(samples: list[Sample], name: str, unit: float) -> str:
    return f"{getattr(samples[0], name) / unit:.1f} to {getattr(samples[-1], name) / unit:.1f}"
