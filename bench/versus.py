"""The three load scenarios on Ferry and on engine A's policy, one after the other within each round.

A piece of the work can be measured at a time: BENCH_SCENARIOS names some of the scenarios, BENCH_ROUNDS
says how many rounds to add, and BENCH_APPEND=1 adds them to what this commit has in versus.json.
BENCH_PEER=off-loop measures beside engine A without its greatest fault (see bench.load.engine_a); those
rounds are kept apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.environment import Environment, read_environment
from bench.load.engine_a import engine_a
from bench.load.figures import Figures, figures
from bench.load.k6 import k6_version, run_script
from bench.load.scenarios import SCENARIOS
from bench.load.warming import embedder_loaded
from bench.model import model_directory
from bench.report import Report
from bench.server import free_port, serve
from bench.stats import Spread, spread
from ferry_runtime.engine.worker.threads import compute_threads

MANIFEST = Path(__file__).parent / "manifests" / "load.yaml"
WANTED = {
    "all_cached": "p95 at most a tenth",
    "repeat_30": "p95 at most half",
    "no_cache": "at least 1.2 times the throughput, p95 no higher",
}
_TIMES = {one.name: {"ramp": one.ramp, "hold": one.hold} for one in SCENARIOS}
PEER = os.environ.get("BENCH_PEER", "documented")  # or off-loop
NAMES = ("ferry", "engine A")
Pair = dict[str, Any]  # scenario, peer, seed, and each name's Figures as JSON


def run(results: Path) -> None:
    environment = read_environment()
    kept = results / "versus.json"
    pairs = _earlier(kept, environment) if os.environ.get("BENCH_APPEND") else []
    scenarios = os.environ.get("BENCH_SCENARIOS", ",".join(WANTED)).split(",")
    rounds = int(os.environ.get("BENCH_ROUNDS", "3"))
    for index in range(rounds * len(scenarios)):
        pairs.append(_pair(scenarios[index % len(scenarios)], pairs))
        _keep(kept, environment, pairs)
    _tell(Report("versus", environment), pairs).write(results)


@contextlib.contextmanager
def _ferry() -> Iterator[str]:
    with serve(MANIFEST) as server:
        asyncio.run(embedder_loaded(server.url))
        yield server.url


@contextlib.contextmanager
def _engine_a() -> Iterator[str]:
    with engine_a(model_directory(), free_port(), compute_threads(), off_loop=PEER == "off-loop") as url:
        yield url


SIDES = {"ferry": _ferry, "engine A": _engine_a}


def _pair(scenario: str, before: list[Pair]) -> Pair:
    """Who goes first alternates; both get the same questions. Only one of them runs at a time."""
    seed = 1 + sum((pair["scenario"], pair["peer"]) == (scenario, PEER) for pair in before)
    pair: Pair = {"scenario": scenario, "peer": PEER, "seed": seed}
    for name in NAMES if seed % 2 else reversed(NAMES):
        with SIDES[name]() as url:
            found = figures(run_script(scenario, url, seed=seed, **_TIMES[scenario]))
        print(f"{scenario}, round {seed}, {name}: {found}", flush=True)
        pair[name] = found.as_json()
    return pair


def _earlier(kept: Path, environment: Environment) -> list[Pair]:
    if not kept.exists():
        return []
    document = json.loads(kept.read_text())
    if document["environment"]["commit"] != environment.commit:
        raise SystemExit(f"{kept} is of another commit: measure all of it anew.")
    return list(document["pairs"])


def _keep(kept: Path, environment: Environment, pairs: list[Pair]) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    document = {"environment": asdict(environment), "k6": k6_version(), "wanted": WANTED, "pairs": pairs}
    kept.write_text(json.dumps(document, indent=1) + "\n")


def _tell(report: Report, pairs: list[Pair]) -> Report:
    report.fact("k6", k6_version())
    for peer, scenario in itertools.product(("documented", "off-loop"), WANTED):
        played = [
            (Figures.from_json(pair["ferry"]), Figures.from_json(pair["engine A"]))
            for pair in pairs
            if (pair["scenario"], pair["peer"]) == (scenario, peer)
        ]
        if played:
            _tell_scenario(report, scenario if peer == "documented" else f"{scenario}, {peer}", played)
    return report


def _tell_scenario(report: Report, title: str, played: list[tuple[Figures, Figures]]) -> None:
    for name, own in zip(NAMES, zip(*played, strict=True), strict=True):
        report.fact(f"{title}, {name}: p50 (s)", _digits([one.p50 for one in own]))
        report.fact(f"{title}, {name}: p95 (s)", _digits([one.p95 for one in own]))
        report.fact(f"{title}, {name}: requests/s", _digits([one.requests_per_second for one in own]))
        report.fact(f"{title}, {name}: outcomes", [one.outcomes for one in own])
        report.fact(f"{title}, {name}: from the cache", [one.cache for one in own])
    wanted = WANTED[title.split(",", maxsplit=1)[0]]
    report.fact(
        f"{title}: p95, engine A / Ferry (wanted: {wanted})", spread([a.p95 / f.p95 for f, a in played])
    )
    rates = [f.requests_per_second / a.requests_per_second for f, a in played]
    report.fact(f"{title}: requests/s, Ferry / engine A", spread(rates))
    if all(a.tokens_per_second for _, a in played):
        rates = [f.tokens_per_second / a.tokens_per_second for f, a in played]
        report.fact(f"{title}: generated tokens/s, Ferry / engine A", spread(rates))


def _digits(values: list[float]) -> str:
    found: Spread = spread(values)
    return f"{found.median:.4g} ({found.low:.4g} to {found.high:.4g})"
