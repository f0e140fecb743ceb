"""One load run: play the scenarios and the matrix, ask the outside tool, write both reports.

LOAD_URL plays the scenarios against a server that is already running (LOAD_MODEL names its model, LOAD_KEY
holds its admin key) and leaves out what needs servers of its own. BENCH_SCENARIOS names some of the
scenarios, LOAD_SOAK=10m adds the soak, LOAD_SEED changes the questions' order, LOAD_MATRIX=0 and
LOAD_OUTSIDE=0 leave those parts out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.environment import read_environment
from bench.load.figures import figures
from bench.load.k6 import k6_version, run_script
from bench.load.matrix import MANIFEST, models, play_matrix
from bench.load.outside import ask_guidellm
from bench.load.page import page
from bench.load.record import Played, Session
from bench.load.scenarios import Scenario, wanted_scenarios
from bench.load.warming import embedder_loaded
from bench.model import model_directory
from bench.server import serve

_REASON = 300  # characters; a script's last words


def measure_and_report(folder: Path) -> None:
    """What was measured before something failed is reported all the same.

    Raises K6Missing, K6Failed, and ValueError for an unknown scenario.
    """
    started = time.monotonic()
    session = new_session()
    try:
        measure(session, session.url or None)
    except BaseException as error:
        session.failed = (str(error).strip() or type(error).__name__).splitlines()[-1][:_REASON]
        raise
    finally:
        session.minutes = (time.monotonic() - started) / 60
        if session.played:
            write(session, folder)


def new_session() -> Session:
    taken = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    seed, url = int(os.environ.get("LOAD_SEED", "1")), os.environ.get("LOAD_URL", "")
    return Session(read_environment(), k6_version(), seed, taken, url=url)


def measure(session: Session, url: str | None) -> None:
    """Fills ``session`` from the server at ``url``, or from servers of its own."""
    with _server(url) as served:
        _play(session, served, wanted_scenarios())
        if url is None and _wanted("LOAD_OUTSIDE"):
            _say("guidellm")
            session.opinion = ask_guidellm(served, "smollm2", model_directory())
    if url is None and _wanted("LOAD_MATRIX"):
        chosen = models()
        session.models = [(model.name, model.parameters, model.what) for model in chosen]
        for cell in play_matrix(chosen, session.seed):
            rate = f"{cell.figures.tokens_per_second:.1f} tokens/s"
            _say(f"{cell.model}, {cell.pattern}, {cell.users} users: {rate}")
            session.cells.append(cell)


def write(session: Session, folder: Path) -> Sequence[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "report.json", folder / "report.html"
    written[0].write_text(json.dumps(session.as_json(), indent=1, allow_nan=False) + "\n")
    written[1].write_text(page(session))
    for path in written:
        _say(f"written: {path}")
    return written


def _play(session: Session, url: str, scenarios: Sequence[Scenario]) -> None:
    model = os.environ.get("LOAD_MODEL", "smollm2")
    for scenario in scenarios:
        _say(scenario.title)
        answers = run_script(
            scenario.name, url, seed=session.seed, model=model, ramp=scenario.ramp, hold=scenario.hold
        )
        session.played.append(Played(scenario, answers))
        _say(f"  {figures(answers)}")


@contextlib.contextmanager
def _server(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with serve(MANIFEST) as server:
        asyncio.run(embedder_loaded(server.url))
        yield server.url


def _wanted(name: str) -> bool:
    return os.environ.get(name, "1") != "0"


def _say(text: str) -> None:
    print(text, flush=True)
