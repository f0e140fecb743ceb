"""Writes what is made from the metrics, or with --check says what is out of date."""

from __future__ import annotations

import sys
from pathlib import Path

from monitoring.dashboards.files import dashboard_file
from monitoring.dashboards.operator import OPERATOR
from monitoring.dashboards.runtime import RUNTIME
from monitoring.inventory import operator_families, runtime_families
from monitoring.reference import alerts_page, metrics_page
from monitoring.rules.files import OPERATOR_GROUPS, RUNTIME_GROUPS, recorded, rule_file

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path("charts/ferry/files/monitoring")


def documents() -> dict[Path, str]:
    """By path from the repository's root.

    :raises UnknownName: for a query that names what nothing exports.
    """
    runtime, operator = runtime_families(), operator_families()
    return {
        FOLDER / "runtime-rules.yaml": rule_file(RUNTIME_GROUPS, runtime),
        FOLDER / "operator-rules.yaml": rule_file(OPERATOR_GROUPS, operator),
        FOLDER / "runtime-dashboard.json": dashboard_file(RUNTIME, runtime, recorded(RUNTIME_GROUPS)),
        FOLDER / "operator-dashboard.json": dashboard_file(OPERATOR, operator, recorded(OPERATOR_GROUPS)),
        Path("docs/reference/metrics.md"): metrics_page({"Runtime": runtime, "Operator": operator}),
        Path("docs/reference/alerts.md"): alerts_page((*RUNTIME_GROUPS, *OPERATOR_GROUPS)),
    }


def main(arguments: list[str]) -> int:
    stale = []
    for path, text in documents().items():
        target = ROOT / path
        if target.is_file() and target.read_text() == text:
            continue
        stale.append(str(path))
        if "--check" not in arguments:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    if "--check" in arguments and stale:
        sys.stderr.write(f"Out of date: {', '.join(stale)}. Run `make generate`.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
