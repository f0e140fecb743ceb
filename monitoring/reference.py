"""The two reference pages: every metric, every alert."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from monitoring.inventory import CLOSED, Family
from monitoring.rules.model import Alert, Group, Recorded

_MADE = "<!-- Made by `python -m monitoring`. -->\n"


def metrics_page(parts: Mapping[str, Mapping[str, Family]]) -> str:
    """``parts``: by heading, the families that one program exports."""
    text = [
        _MADE,
        "# Metrics\n",
        "What `/metrics` of the runtime and of the operator export, read from their registries. Labels that Prometheus "
        "adds to a\ntarget (`job`, `instance`, `namespace`, `service`, `pod`) are not listed. Each counter and histogram "
        "also has a `_created` series.\n",
    ]
    for heading, families in parts.items():
        text += [f"## {heading}\n", "| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
        text += [_metric(family) for family in families.values()]
        text.append("")
    return "\n".join(text)


def alerts_page(groups: Iterable[Group]) -> str:
    text = [
        _MADE,
        "# Alerts\n",
        "What each alert means and what to do. How to have them: [monitoring](../monitoring.md).\n",
    ]
    recorded: list[Recorded] = []
    for group in groups:
        recorded += [rule for rule in group.rules if isinstance(rule, Recorded)]
        text += [_alert(rule) for rule in group.rules if isinstance(rule, Alert)]
    text += [
        "# Recorded series\n",
        "Over five minutes, by `namespace` and `service`, unless the name says otherwise.\n",
    ]
    text += [f"`{rule.name}`\n\n```promql\n{rule.expr}\n```\n" for rule in recorded]
    return "\n".join(text)


def _metric(family: Family) -> str:
    labels = ", ".join(_label(family, label) for label in family.labels)
    shown = family.series[0] if family.kind == "counter" else family.name
    return f"| `{shown}` | {family.kind} | {labels} | {family.text.rstrip('.')} |"


def _label(family: Family, label: str) -> str:
    values = CLOSED.get((family.name, label))
    return f"`{label}`" + (f" ({', '.join(sorted(values))})" if values else "")


def _alert(alert: Alert) -> str:
    lasting = "" if alert.lasting == "0m" else f", after {alert.lasting}"
    return (
        f"## {alert.name}\n\n*{alert.severity.value}*{lasting}\n\n{alert.means}\n\n**What to do.** {alert.do}\n\n"
        f"```promql\n{alert.expr}\n```\n"
    )
