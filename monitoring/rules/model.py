"""Rules as values, and their spelling in Prometheus' rule files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

REFERENCE = "docs/reference/alerts.md"
"""Where each alert is explained; the chart puts a web address before it."""


class Severity(StrEnum):
    """Critical: users notice, or will within minutes. Warning: somebody should look today."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """``lasting``: how long the expression must hold. ``summary`` may use the series' labels.

    ``means`` and ``do`` are for whoever is woken: they become the reference page, not annotations.
    """

    name: str
    expr: str
    lasting: str
    severity: Severity
    summary: str
    means: str
    do: str

    def spelled(self) -> dict[str, Any]:
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasting,
            "labels": {"severity": self.severity.value},
            "annotations": {
                "summary": self.summary,
                "runbook_url": f"{REFERENCE}#{self.name.lower()}",
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A series that Prometheus keeps of a query. ``labels``: what remains of the query's labels."""

    name: str
    expr: str
    labels: frozenset[str]

    def spelled(self) -> dict[str, Any]:
        return {"record": self.name, "expr": self.expr}


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together, in order."""

    name: str
    rules: tuple[Alert | Recorded, ...]

    def spelled(self) -> dict[str, Any]:
        return {"name": self.name, "rules": [rule.spelled() for rule in self.rules]}
