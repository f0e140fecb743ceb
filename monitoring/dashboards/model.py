"""Panels as values, and their spelling in Grafana's dashboard JSON (schema 39, Grafana 10 and later)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

SELECT = "@"
"""In a query: the matchers of the dashboard's variables."""
RATE = "$__rate_interval"
_WIDTH = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Shape(StrEnum):
    """Grafana's panel types."""

    LINES = "timeseries"
    NUMBER = "stat"
    HEATMAP = "heatmap"


@dataclass(frozen=True, slots=True)
class Query:
    """``legend`` may use the series' labels: ``{{label}}``."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """``unit`` is one of Grafana's ids; ``most`` ends the axis, 1 for shares."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    shape: Shape = Shape.LINES
    text: str = ""
    width: int = 8
    stacked: bool = False
    most: float | None = None
    alarm: float | None = None
    """A number that is red from here on."""


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A choice of label values at the head of the dashboard."""

    label: str
    metric: str
    within: tuple[str, ...] = ()

    def spelled(self) -> dict[str, Any]:
        inside = ", ".join(f'{label}=~"${label}"' for label in self.within)
        query = f"label_values({self.metric}{{{inside}}}, {self.label})"
        return {
            "name": self.label,
            "label": self.label,
            "type": "query",
            "datasource": _SOURCE,
            "definition": query,
            "query": {"query": query, "refId": self.label},
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",  # also targets without the label
            "current": {"text": "All", "value": "$__all"},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """``uid`` is frozen: links lead to it."""

    uid: str
    title: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]

    @property
    def matchers(self) -> str:
        return ", ".join(f'{variable.label}=~"${variable.label}"' for variable in self.variables)

    def spelled(self) -> dict[str, Any]:
        """The document that Grafana imports and provisions."""
        source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
        return {
            "uid": self.uid,
            "title": self.title,
            "tags": ["ferry"],
            "schemaVersion": 39,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "templating": {"list": [source, *(variable.spelled() for variable in self.variables)]},
            "panels": self._panels(),
        }

    def _panels(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        y = 0
        for row in self.rows:
            head = {"type": "row", "title": row.title, "collapsed": False, "panels": []}
            found.append(head | _at(len(found), 0, y, _WIDTH, 1))
            y += 1
            x = height = 0
            for panel in row.panels:
                if x + panel.width > _WIDTH:
                    x, y = 0, y + height
                height = 4 if panel.shape is Shape.NUMBER else 8
                found.append(self._panel(panel) | _at(len(found), x, y, panel.width, height))
                x += panel.width
            y += height
        return found

    def _panel(self, panel: Panel) -> dict[str, Any]:
        heat = panel.shape is Shape.HEATMAP
        return {
            "type": panel.shape.value,
            "title": panel.title,
            "description": panel.text,
            "datasource": _SOURCE,
            "targets": [
                {
                    "refId": chr(ord("A") + number),
                    "datasource": _SOURCE,
                    "expr": query.expr.replace(SELECT, self.matchers),
                    "legendFormat": query.legend or "__auto",
                    **({"format": "heatmap"} if heat else {}),
                }
                for number, query in enumerate(panel.queries)
            ],
            "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
            "options": _options(panel),
        }


def _at(number: int, x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return {"id": number + 1, "gridPos": {"x": x, "y": y, "w": width, "h": height}}


def _defaults(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.alarm is not None:
        steps.append({"color": "red", "value": panel.alarm})
    found: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.most is not None:
        found["max"] = panel.most
    if panel.shape is Shape.LINES:
        found["custom"] = {
            "fillOpacity": 25 if panel.stacked else 0,
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "showPoints": "never",
            "spanNulls": False,
            "thresholdsStyle": {"mode": "line" if panel.alarm is not None else "off"},
        }
    return found


def _options(panel: Panel) -> dict[str, Any]:
    match panel.shape:
        case Shape.LINES:
            return {
                "legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        case Shape.NUMBER:
            return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"}
        case Shape.HEATMAP:
            return {"calculate": False, "yAxis": {"unit": panel.unit}, "color": {"scheme": "Blues"}}
