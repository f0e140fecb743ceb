from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.load import session
from bench.load.k6 import Answer, K6Failed


def test_what_was_measured_before_a_failure_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_script(script: str, url: str, **settings: Any) -> list[Answer]:
        if script == "no_cache":
            raise K6Failed("no_cache: gone")
        return [Answer(0.0, 1.0, "finished", "exact", "repeated", 8, 1)]

    monkeypatch.setenv("LOAD_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("BENCH_SCENARIOS", "all_cached,no_cache")
    monkeypatch.setattr(session, "run_script", run_script)
    monkeypatch.setattr(session, "k6_version", lambda: "k6")

    with pytest.raises(K6Failed):
        session.measure_and_report(tmp_path)

    document = json.loads((tmp_path / "report.json").read_text())
    assert [one["name"] for one in document["scenarios"]] == ["all_cached"]
    assert document["failed"] == "no_cache: gone"
    html = (tmp_path / "report.html").read_text()
    assert "Incomplete: no_cache: gone" in html
    assert "against http://127.0.0.1:1, whose machine and version are not known here" in html
    assert "shares its processors" not in html
