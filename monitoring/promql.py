"""Checks a query's names without evaluating it: metrics, labels, and values of closed labels.

Whether Prometheus understands the query is Prometheus' to say; the tests ask a real one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from monitoring.inventory import CLOSED, Family

# What Prometheus and the ServiceMonitors add to every series of a target.
TARGET_LABELS = frozenset({"job", "instance", "namespace", "service", "pod"})

_METRIC = re.compile(r"\b((?:ferry[_:]|process_)[a-z0-9_:]+|up)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'\s*([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"\s*(?:,|$)')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")


class UnknownName(Exception):
    """A query names what nothing exports."""


@dataclass(frozen=True)
class Names:
    """What may be named: exported series, recorded ones and their labels."""

    series: Mapping[str, Family]
    recorded: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, families: Iterable[Family], recorded: Mapping[str, frozenset[str]] | None = None) -> Names:
        return cls({name: family for family in families for name in family.series}, recorded or {})

    def used(self, query: str) -> frozenset[str]:
        """Every metric that the query names.

        :raises UnknownName: for a metric, label or closed label's value that does not exist.
        """
        found, labels = set(), set(TARGET_LABELS)
        for match in _METRIC.finditer(query):
            name, matchers = match[1], match[2] or ""
            known = self._labels(name, query)
            labels |= known
            found.add(name)
            self._check_matchers(name, matchers, known | TARGET_LABELS, query)
        if not found:
            raise UnknownName(f"no metric in: {query}")
        for grouping in _GROUPING.finditer(query):
            for label in filter(None, (part.strip() for part in grouping[1].split(","))):
                if label not in labels:
                    raise UnknownName(f"no metric of this query has the label {label}: {query}")
        return frozenset(found)

    def _labels(self, name: str, query: str) -> Set[str]:
        if name == "up":
            return set()
        if name in self.recorded:
            return self.recorded[name]
        family = self.series.get(name)
        if family is None:
            raise UnknownName(f"nothing exports {name}: {query}")
        return {*family.labels, *(("le",) if name.endswith("_bucket") else ())}

    def _check_matchers(self, name: str, text: str, known: Set[str], query: str) -> None:
        for label, operator, value in _MATCHER.findall(text):
            if label not in known:
                raise UnknownName(f"{name} has no label {label}: {query}")
            family = self.series.get(name)
            closed = CLOSED.get((family.name, label)) if family else None
            if closed is None or "$" in value:
                continue
            values = value.split("|") if operator in ("=~", "!~") else [value]
            if wrong := set(values) - closed:
                raise UnknownName(f"{name}: {label} is never {', '.join(sorted(wrong))}: {query}")
