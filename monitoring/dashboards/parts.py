"""Queries that occur again and again."""

from __future__ import annotations

from monitoring.dashboards.model import RATE, SELECT, Panel, Query, Shape


def rate(metric: str, *by: str, matching: str = "") -> str:
    """Per second, summed over what is not named in ``by``."""
    inside = f"{SELECT}, {matching}" if matching else SELECT
    grouping = f" by ({', '.join(by)})" if by else ""
    return f"sum{grouping} (rate({metric}{{{inside}}}[{RATE}]))"


def share(part: str, whole: str, *by: str) -> str:
    """Of two counters; each may have matchers of its own: ``name{label="value"}``."""
    return f"{_rate_of(part, by)} / {_rate_of(whole, by)}"


def quantile(metric: str, share_: float, *by: str) -> str:
    inner = rate(f"{metric}_bucket", "le", *by)
    return f"histogram_quantile({share_}, {inner})"


def number(title: str, expr: str, unit: str = "short", *, alarm: float | None = None) -> Panel:
    return Panel(title=title, queries=(Query(expr),), unit=unit, shape=Shape.NUMBER, width=3, alarm=alarm)


def lines(
    title: str,
    *queries: tuple[str, str],
    unit: str = "short",
    text: str = "",
    stacked: bool = False,
    most: float | None = None,
    alarm: float | None = None,
) -> Panel:
    """``queries``: expression and legend."""
    return Panel(
        title=title,
        queries=tuple(Query(expr, legend) for expr, legend in queries),
        unit=unit,
        text=text,
        stacked=stacked,
        most=most,
        alarm=alarm,
    )


def latency(title: str, metric: str, text: str = "") -> Panel:
    """The three percentiles that people ask for."""
    queries = ((quantile(metric, q), f"p{q * 100:.0f}") for q in (0.5, 0.95, 0.99))
    return lines(title, *queries, unit="s", text=text)


def heat(title: str, metric: str, unit: str = "short", text: str = "") -> Panel:
    expr = f"sum by (le) (increase({metric}_bucket{{{SELECT}}}[{RATE}]))"
    return Panel(title=title, queries=(Query(expr, "{{le}}"),), unit=unit, shape=Shape.HEATMAP, text=text)


def now(metric: str, *by: str, of: str = "sum") -> str:
    grouping = f" by ({', '.join(by)})" if by else ""
    return f"{of}{grouping} ({metric}{{{SELECT}}})"


def _rate_of(selector: str, by: tuple[str, ...]) -> str:
    metric, _, matching = selector.partition("{")
    return rate(metric, *by, matching=matching.removesuffix("}"))
