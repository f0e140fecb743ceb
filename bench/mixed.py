"""Nine short requests to one long at 1.2 times the server's capacity: the score of the scheduler
beside first come first served, on two servers of the same manifest, in alternating rounds.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.environment import read_environment
from bench.open_loop import LONG, SHORT, Result, arrivals, capacity, count, outcomes, play
from bench.report import Report
from bench.server import Server, serve
from bench.stats import quantile, spread

MANIFEST = Path(__file__).parent / "manifests" / "mixed.yaml"
PLAIN = "bench.plain_server"
OVERLOAD = 1.2
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "120"))
_CAPACITY_SECONDS = 40.0
_CLIENTS = 24


@dataclass(frozen=True, slots=True)
class Figures:
    """What one round on one server came to."""

    short_p95: float
    long_finished: int
    refused: float
    tokens_per_second: float
    all_ended: bool


def figures(results: list[Result]) -> Figures:
    short = [result.seconds for result in results if (result.kind, result.outcome) == (SHORT, "finished")]
    ended = {"finished", "refused", "expired"}
    return Figures(
        short_p95=quantile(short, 0.95),
        long_finished=count(results, kind=LONG, outcome="finished"),
        refused=1 - count(results, outcome="finished") / len(results),
        tokens_per_second=sum(result.tokens for result in results) / max(result.ended for result in results),
        all_ended=set(outcomes(results)) <= ended,
    )


def run(results: Path) -> None:
    report = Report("mixed", read_environment())
    rounds: list[tuple[Figures, Figures]] = []
    with serve(MANIFEST) as scored, serve(MANIFEST, module=PLAIN) as plain:
        model = httpx.get(f"{scored.url}/v1/models").json()["data"][0]["id"]
        for index in range(ROUNDS):
            rate = asyncio.run(_measure_capacity(scored, plain, model, seed=900 + index))
            report.fact(f"round {index + 1}: capacity (requests/s of the mix)", f"{rate:.2f}")
            schedule = arrivals(OVERLOAD * rate, SECONDS, seed=index)
            played: dict[str, list[Result]] = {}
            order = [("scored", scored), ("plain", plain)]
            for name, server in order if index % 2 else reversed(order):
                played[name] = asyncio.run(play(server.url, model, schedule))
                report.fact(f"round {index + 1}, {name}: outcomes of {len(schedule)}", outcomes(played[name]))
            rounds.append((figures(played["scored"]), figures(played["plain"])))
    _tell(report, rounds)
    report.write(results)


async def _measure_capacity(scored: Server, plain: Server, model: str, seed: int) -> float:
    """The mean of the two servers', anew for each round: machines drift. It also warms both and
    teaches them answer lengths."""
    rates = [
        await capacity(server.url, model, clients=_CLIENTS, seconds=_CAPACITY_SECONDS, seed=seed)
        for server in (scored, plain)
    ]
    return sum(rates) / len(rates)


def _tell(report: Report, rounds: list[tuple[Figures, Figures]]) -> None:
    report.fact("short requests, p95 (s), scored", spread([scored.short_p95 for scored, _ in rounds]))
    plain_p95 = spread([plain.short_p95 for _, plain in rounds])
    report.fact("short requests, p95 (s), first come first served", plain_p95)
    ratios = [scored.short_p95 / plain.short_p95 for scored, plain in rounds]
    report.fact("short p95, ratio (wanted: at most 0.5)", spread(ratios))
    report.fact(
        "long requests finished, ratio (wanted: at least 0.9)",
        spread([scored.long_finished / max(1, plain.long_finished) for scored, plain in rounds]),
    )
    report.fact(
        "refused or expired, difference in percentage points (wanted: at most 2)",
        spread([100 * (scored.refused - plain.refused) for scored, plain in rounds]),
    )
    report.fact(
        "tokens/s, ratio (wanted: 0.95 to 1.05)",
        spread([scored.tokens_per_second / plain.tokens_per_second for scored, plain in rounds]),
    )
    report.fact("every request finished or was refused", all(f.all_ended for pair in rounds for f in pair))
