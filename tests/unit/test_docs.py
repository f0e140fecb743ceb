"""What the documents say about tests is so."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def test_every_guarantee_of_the_operator_names_tests_that_exist():
    there = {
        name
        for folder in ("tests", "e2e")
        for path in (_ROOT / folder).rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    rows = [line for line in (_ROOT / "docs" / "operator.md").read_text().splitlines() if line[:2] == "| "]
    named = [re.findall(r"`(test_\w+)`", row) for row in rows[1:]]
    assert len(named) > 20
    assert [row for row, found in zip(rows[1:], named, strict=True) if not found] == []
    assert {name for found in named for name in found} - there == set()
