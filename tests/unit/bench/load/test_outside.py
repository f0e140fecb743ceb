from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from bench.load.outside import ask_guidellm

PERCENTILES = {"successful": {"percentiles": {"p50": 2.0, "p95": 4.0}, "mean": 3.0}}
METRICS = {
    "request_totals": {"successful": 12, "errored": 1},
    **dict.fromkeys(
        (
            "requests_per_second", "output_tokens_per_second", "request_latency",
            "time_to_first_token_ms", "inter_token_latency_ms",
        ),
        PERCENTILES,
    ),
}  # fmt: skip
DOCUMENT = {"metadata": {"guidellm_version": "0.8"}, "benchmarks": [{"metrics": METRICS}]}


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program in guidellm's place: its last argument names the output file."""
    program = tmp_path / "guidellm"
    program.write_text(f"#!/bin/sh\nfor last; do :; done\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("GUIDELLM", str(program))


def test_its_report_becomes_an_opinion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "document.json").write_text(json.dumps(DOCUMENT))
    stand_in(tmp_path, monkeypatch, f'cp {tmp_path}/document.json "${{last#*path=}}"')

    opinion = ask_guidellm("http://127.0.0.1:1", "m", tmp_path)

    assert (opinion.version, opinion.problem) == ("0.8", "")
    assert opinion.figures["requests, successful"] == 12
    assert opinion.figures["request_latency, p95"] == 4.0
    assert "--profile kind=concurrent" in opinion.command
    assert f"model={tmp_path.name} " in opinion.command  # the report names no folder of this machine
    assert str(tmp_path) not in opinion.command


def test_where_it_is_missing_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIDELLM", str(tmp_path / "nowhere"))

    opinion = ask_guidellm("http://127.0.0.1:1", "m", tmp_path)

    assert "not installed" in opinion.problem
    assert opinion.figures == {}


@pytest.mark.parametrize("left", ['{"benchmarks": []}', '{"benchm', '{"benchmarks": [{"metrics": null}]}'])
def test_half_a_result_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    (tmp_path / "left.json").write_text(left)
    stand_in(tmp_path, monkeypatch, f'cp {tmp_path}/left.json "${{last#*path=}}"')
    assert "could not be read" in ask_guidellm("http://127.0.0.1:1", "m", tmp_path).problem


def test_its_failure_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "exit 3")

    assert "ended with 3" in ask_guidellm("http://127.0.0.1:1", "m", tmp_path).problem
