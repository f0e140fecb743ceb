"""A dashboard as the file that Grafana reads, checked against the inventory and completed from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from monitoring.dashboards.model import Dashboard, Panel, Query, Row
from monitoring.dashboards.parts import latency, lines, now, rate
from monitoring.inventory import Family
from monitoring.promql import Names

# Of the process, what the rows above show of it is enough.
_LEFT_OUT = "process_"
_RECORDED = "{@NS}"


def completed(
    dashboard: Dashboard, families: Mapping[str, Family], recorded: Mapping[str, frozenset[str]]
) -> Dashboard:
    """With a last row for every metric that no panel names.

    :raises UnknownName: for a query that names what nothing exports.
    """
    dashboard = _narrowed(dashboard)
    names = Names.of(families.values(), recorded)
    used = frozenset(chain.from_iterable(names.used(query) for query in queries(dashboard)))
    missing = [
        family
        for family in families.values()
        if not family.name.startswith(_LEFT_OUT) and used.isdisjoint(family.series)
    ]
    if not missing:
        return dashboard
    return replace(dashboard, rows=(*dashboard.rows, Row("Further", tuple(map(_plain, missing)))))


def dashboard_file(
    dashboard: Dashboard, families: Mapping[str, Family], recorded: Mapping[str, frozenset[str]]
) -> str:
    whole = completed(dashboard, families, recorded)
    return json.dumps(whole.spelled(), indent=1, ensure_ascii=False) + "\n"


def queries(dashboard: Dashboard) -> Iterator[str]:
    """Every query, with the variables' matchers in it."""
    for row in dashboard.rows:
        for panel in row.panels:
            for query in panel.queries:
                yield query.expr.replace("@", dashboard.matchers)


def _narrowed(dashboard: Dashboard) -> Dashboard:
    """Recorded series are sums over pods: only the other variables select among them."""
    wider = [v for v in dashboard.variables if v.label != "pod"]
    matchers = "{" + ", ".join(f'{v.label}=~"${v.label}"' for v in wider) + "}"

    def narrow(panel: Panel) -> Panel:
        found = tuple(Query(query.expr.replace(_RECORDED, matchers), query.legend) for query in panel.queries)
        return replace(panel, queries=found)

    rows = tuple(Row(row.title, tuple(map(narrow, row.panels))) for row in dashboard.rows)
    return replace(dashboard, rows=rows)


def _plain(family: Family) -> Panel:
    """A panel for a metric that nobody has drawn yet."""
    by = family.labels
    legend = " ".join(f"{{{{{label}}}}}" for label in by) or family.name
    match family.kind:
        case "histogram":
            return latency(family.name, family.name, family.text)
        case "counter":
            return lines(family.name, (rate(family.series[0], *by), legend), unit="ops", text=family.text)
        case _:
            return lines(family.name, (now(family.name, *by), legend), text=family.text)
