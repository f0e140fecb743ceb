"""The report as one HTML page, for readers who know neither the code nor the tools."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from bench.load import plots
from bench.load.figures import Figures, by_kind
from bench.load.matrix import PATTERNS, SECONDS, TOKENS, Cell
from bench.load.outside import OUTPUT_TOKENS, PROMPT_TOKENS, Opinion
from bench.load.outside import USERS as OPINION_USERS
from bench.load.record import Played, Session

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1b1b; background: #fff; max-width: 60rem;
       margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-top: 1px solid #ccc; padding-top: 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } caption { text-align: left; color: #555; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; } svg { width: 100%; height: auto; }
.bad { color: #a40000; font-weight: 600; } dt { font-weight: 600; } code { font-size: .9em; }
"""


def page(session: Session) -> str:
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'><title>Ferry under load</title>",
        f"<style>{_STYLE}</style></head><body><h1>Ferry under load</h1>",
        *_introduction(session),
        *_scenarios(session.played),
        *_matrix(session.cells, session.models),
        *_opinion(session.opinion),
        *_machine(session),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _introduction(session: Session) -> list[str]:
    where = (
        f"against {html.escape(session.url)}, whose machine and version are not known here"
        if session.url
        else "on the machine that also serves, so the two share its processors"
    )
    lines = [
        *([f"<p class='bad'>Incomplete: {html.escape(session.failed)}</p>"] if session.failed else []),
        f"<p>Users are simulated by k6 {where}. A "
        "time is from sending a request to having its whole answer. <b>A request that was refused, failed "
        "or had no answer when its scenario ended counts as having waited for ever</b>; a percentile that "
        "falls among such requests is shown as “never”.</p>",
        f"<p>Taken {html.escape(session.taken)}, in {session.minutes:.1f} minutes, "
        f"{'load scripts of commit' if session.url else 'commit'} "
        f"<code>{html.escape(session.environment.commit)}</code>, seed {session.seed}.</p>",
    ]
    if session.played:
        rows = [(one.scenario.title, *_cells(one.figures)) for one in session.played]
        lines += [
            "<h2>At a glance</h2>",
            _table(("scenario", *_COLUMNS), rows),
            plots.latencies([(one.scenario.title, one.figures) for one in session.played]),
        ]
    return lines


_COLUMNS = ("requests", "not answered", "from the cache", "half within", "95 % within", "99 % within",
            "answers/s", "generated tokens/s")  # fmt: skip


def _cells(own: Figures) -> tuple[str, ...]:
    lost = own.requests - own.outcomes.get("finished", 0)
    return (
        str(own.requests),
        f"<span class='bad'>{lost}</span>" if lost else "0",
        str(own.hits),
        *(_duration(value) for value in (own.p50, own.p95, own.p99)),
        f"{own.requests_per_second:.3g}",
        f"{own.tokens_per_second:.3g}",
    )


def _scenarios(played: Sequence[Played]) -> Iterable[str]:
    for one in played:
        yield f"<h2>{html.escape(one.scenario.title)}</h2><p>{html.escape(one.scenario.what)}</p>"
        kinds = by_kind(one.answers)
        if len(kinds) > 1:
            yield _table(("kind", *_COLUMNS), [(kind, *_cells(own)) for kind, own in kinds.items()])
        yield plots.over_time(one.answers)
        if one.scenario.name == "ramp":
            yield "<p>Generated answers by the number of users; boxes hold the middle half, lines 90 %.</p>"
            yield plots.by_users(one.answers)


def _matrix(cells: Sequence[Cell], models: Sequence[tuple[str, str, str]]) -> list[str]:
    if not cells:
        return []
    kinds = "".join(f"<dt>{name}</dt><dd>{html.escape(what)}</dd>" for name, what in PATTERNS.items())
    rows = [(name, parameters, html.escape(what)) for name, parameters, what in models]
    names = [name for name, _, _ in models]
    figures = [
        (cell.model, cell.pattern, str(cell.users), *_cells(cell.figures))
        for cell in sorted(cells, key=lambda cell: (names.index(cell.model), cell.pattern, cell.users))
    ]
    return [
        "<h2>Users, model sizes and patterns of requests</h2>",
        f"<p>Bursts of {SECONDS} in which each user asks again as soon as an answer is there; every answer "
        f"has {TOKENS} tokens. Models of random weights answer noise; they cost what any model of their "
        "shape costs.</p>",
        _table(("model", "parameters", "weights"), rows),
        f"<dl>{kinds}</dl>",
        plots.matrix(cells, names, list(PATTERNS)),
        "<details><summary>All figures</summary>",
        _table(("model", "pattern", "users", *_COLUMNS), figures),
        "</details>",
    ]


def _opinion(opinion: Opinion | None) -> list[str]:
    if opinion is None:
        return []
    lines = ["<h2>An outside opinion</h2>"]
    if opinion.problem:
        return [*lines, f"<p>None: {html.escape(opinion.problem)}</p>"]
    rows = [(html.escape(name), f"{value:.4g}") for name, value in opinion.figures.items()]
    return [
        *lines,
        f"<p>guidellm {html.escape(opinion.version)} with {OPINION_USERS} users, prompts of {PROMPT_TOKENS} "
        f"and answers of {OUTPUT_TOKENS} tokens, in its own words (latency in seconds where it says no "
        "unit):</p>",
        _table(("figure", "value"), rows),
        f"<p><code>{html.escape(opinion.command)}</code></p>",
    ]


def _machine(session: Session) -> list[str]:
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in session.environment.lines())
    return [
        f"<h2>Machine and versions{' of the load generator' if session.url else ''}</h2>",
        f"<ul>{lines}<li>k6: {html.escape(session.k6)}</li></ul>",
        "<p>All figures are in <code>report.json</code> beside this page. Results of one machine say little "
        "about another; run it again on yours with <code>make load</code>.</p>",
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th scope='col'>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _duration(seconds: float) -> str:
    if seconds == math.inf:
        return "<span class='bad'>never</span>"
    return plots.duration(seconds)
