"""The load framework: k6 scenarios and a matrix, one report. `python -m bench load`, or `make load`."""

from __future__ import annotations

from pathlib import Path


def run(results: Path) -> None:
    from bench.load.session import measure_and_report

    measure_and_report(results / "load")
