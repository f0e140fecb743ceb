"""All rules, checked against the inventory, as the two files that Prometheus loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import yaml

from monitoring.inventory import Family
from monitoring.promql import Names
from monitoring.rules.cache import CACHE
from monitoring.rules.model import Alert, Group, Recorded
from monitoring.rules.operator import OPERATOR, SERVICES
from monitoring.rules.runtime import LOAD, RECORDED, SERVING

RUNTIME_GROUPS = (RECORDED, SERVING, LOAD, CACHE)
OPERATOR_GROUPS = (SERVICES, OPERATOR)
_HEAD = "# Made by `python -m monitoring`; the sources are in monitoring/rules.\n"


def alerts(groups: Iterable[Group]) -> list[Alert]:
    return [rule for group in groups for rule in group.rules if isinstance(rule, Alert)]


def recorded(groups: Iterable[Group]) -> dict[str, frozenset[str]]:
    """Names of recorded series with their labels."""
    return {rule.name: rule.labels for group in groups for rule in group.rules if isinstance(rule, Recorded)}


def rule_file(groups: tuple[Group, ...], families: Mapping[str, Family]) -> str:
    """:raises UnknownName: for a rule that names what nothing exports."""
    names = Names.of(families.values(), recorded(groups))
    for group in groups:
        for rule in group.rules:
            names.used(rule.expr)
    document = {"groups": [group.spelled() for group in groups]}
    return _HEAD + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes queries of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
