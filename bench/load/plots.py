"""The report's pictures, as SVG text that stands by itself."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from bench.load.figures import Figures
from bench.load.k6 import Answer
from bench.load.matrix import Cell

# Told apart by colour-blind readers too (Okabe and Ito, "Color Universal Design", 2008).
BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#777777"
_CACHE = {
    "generated": BLUE,
    "from the cache": GREEN,
    "no answer": RED,
}
_MARKS = ("o", "s", "^", "D")
_FROM_CACHE = frozenset({"exact", "semantic", "coalesced", "hit"})
_LEAST_SECONDS = 1e-3  # where a logarithmic axis begins


def duration(seconds: float) -> str:
    """As a reader says it: 3.2 ms, 41 s."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


_DURATIONS = FuncFormatter(lambda value, _: duration(value))

mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "ferry",
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "legend.frameon": False,
    }
)


def latencies(found: Sequence[tuple[str, Figures]]) -> str:
    """Half, 95 and 99 in a hundred requests of each scenario were answered within …"""
    figure = Figure(figsize=(7.6, 0.62 * len(found) + 1.1))
    axes = figure.subplots()
    shown: set[str] = set()  # in the legend: each once, though a scenario may lack some
    for place, (_, own) in enumerate(found):
        for value, colour, name in (
            (own.p99, RED, "99 %"),
            (own.p95, ORANGE, "95 %"),
            (own.p50, BLUE, "half"),
        ):
            if value < math.inf:
                at = max(value, _LEAST_SECONDS)
                axes.plot(
                    at, place, "o", color=colour, markersize=9, label=name if name not in shown else None
                )
                shown.add(name)
                axes.annotate(
                    duration(value), (at, place), (0, 8), textcoords="offset points", ha="center", fontsize=7
                )
    axes.set(xscale="log", xlabel="until answered (logarithmic)", ylim=(len(found) - 0.4, -0.7))
    axes.xaxis.set_major_formatter(_DURATIONS)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(found)), [title for title, _ in found])
    if axes.get_legend_handles_labels()[0]:  # none where no request was answered
        axes.legend(title="of the requests within", loc="center left", bbox_to_anchor=(1, 0.5))
    return _svg(figure)


def over_time(answers: Sequence[Answer]) -> str:
    """Each request as a point where it was sent, with how many users there were."""
    figure = Figure(figsize=(7.6, 3.0))
    axes = figure.subplots()
    for name, colour in _CACHE.items():
        own = [answer for answer in answers if _kind(answer) == name]
        if own:
            axes.scatter(
                [answer.at for answer in own], [max(answer.seconds, _LEAST_SECONDS) for answer in own],
                s=14, color=colour, label=f"{name} ({len(own)})", alpha=0.6, linewidths=0, rasterized=True,
            )  # fmt: skip
    axes.set(yscale="log", xlabel="sent, seconds after the start", ylabel="answered after")
    axes.yaxis.set_major_formatter(_DURATIONS)
    axes.yaxis.set_minor_formatter(NullFormatter())
    # Whole decades, so that an axis has two labels at least.
    low, high = axes.get_ylim()
    axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    users = axes.twinx()
    sent = sorted(answers, key=lambda answer: answer.at)
    users.plot([a.at for a in sent], [a.users for a in sent], color=GREY, linewidth=1, label="users")
    users.set(ylabel="users", ylim=(0, 1.15 * max(1, *(answer.users for answer in sent))))
    users.grid(visible=False)
    figure.legend(loc="outside upper center", ncols=4)
    return _svg(figure)


def by_users(answers: Sequence[Answer], step: int = 10) -> str:
    """How long answers take by how many users there were when they were asked for."""
    generated = [answer for answer in answers if _kind(answer) == "generated"]
    figure = Figure(figsize=(7.6, 2.8))
    axes = figure.subplots()
    groups: dict[int, list[float]] = {}
    for answer in generated:
        groups.setdefault((answer.users - 1) // step, []).append(answer.seconds)
    if groups:
        places = sorted(groups)
        axes.boxplot([groups[place] for place in places], whis=(5, 95), showfliers=False)
        axes.set_xticks(
            range(1, len(places) + 1),
            [f"{step * p + 1} to {step * p + step}\n({len(groups[p])})" for p in places],
        )
    axes.set(xlabel="users (requests)", ylabel="generated answers, after (s)", ylim=(0, None))
    return _svg(figure)


def matrix(cells: Sequence[Cell], models: Sequence[str], patterns: Sequence[str]) -> str:
    """Tokens per second, and the time within which 95 % were answered, over the number of users."""
    figure = Figure(figsize=(7.6, 4.6))
    grid = figure.subplots(2, len(patterns), sharex=True, sharey="row", squeeze=False)
    for column, pattern in enumerate(patterns):
        for row, (value, label) in enumerate(
            (("tokens_per_second", "generated tokens/s"), ("p95", "95 % within (s)"))
        ):
            axes = grid[row][column]
            for mark, colour, model in zip(_MARKS, (GREEN, BLUE, ORANGE, RED), models, strict=False):
                own = [cell for cell in cells if (cell.model, cell.pattern) == (model, pattern)]
                values = [getattr(cell.figures, value) for cell in own]
                axes.plot([cell.users for cell in own], values, marker=mark, color=colour, label=model)
            users = sorted({cell.users for cell in cells})
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(users, [str(number) for number in users])
            axes.minorticks_off()
            if row == 0:
                axes.set_title(pattern)
            else:
                axes.set_xlabel("users")
            if column == 0:
                axes.set_ylabel(label)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(models))
    return _svg(figure)


def _kind(answer: Answer) -> str:
    if answer.outcome != "finished":
        return "no answer"
    return "from the cache" if answer.cache in _FROM_CACHE else "generated"


def _svg(figure: Any) -> str:
    figure.set_layout_engine("constrained")
    text = io.StringIO()
    figure.savefig(text, format="svg", dpi=110, metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
