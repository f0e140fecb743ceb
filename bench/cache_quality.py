"""How often the semantic cache hits, and how often it is wrong, on fow-cache's 600 pairs and 240 chats.

Pairs are split into folds by source question. For every fold the trees are trained, and the operating
point chosen, on the other folds alone; cosine-only is given the same chance. The 95 % intervals are
Wilson's (JASA 22, 1927).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.cache_data import conversations
from bench.cache_train import (
    FOLDS,
    WRONG,
    Table,
    fit,
    folds_of,
    held_out_scores,
    joined,
    operating_point,
    served_score,
    tables,
)
from bench.environment import read_environment
from bench.report import Report
from ferry_runtime.cache.identity import Identity, ServedModel, identify
from ferry_runtime.cache.shadow import wilson
from ferry_runtime.engine.protocol import SamplingParams
from ferry_runtime.generation import GenerationRequest

GATES = (0.80, 0.70)
QUOTED = (0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3)  # shares of traps
REPEATS = 2  # other partitions into folds; figures are their means
INNER = 5


def run(results: Path) -> None:
    report = Report("cache_quality", read_environment())
    table, extra = tables()
    seeds = range(1, REPEATS + 1)
    outer = [_outer(table, extra, seed) for seed in seeds]
    for gate in GATES:
        for name, column in (("verifier", 0), ("cosine alone", 1)):
            served = [_served(table, rounds, gate, column) for rounds in outer]
            report.fact(f"{name} behind cosine ≥ {gate:.2f}", _figures(served, table.same))
    plain = table.cosine >= 0.80
    report.fact("every candidate with cosine ≥ 0.80 served", _figures([plain], table.same))
    report.fact("240 chats", _chats())
    report.section("Trade-off, held-out scores (share of traps served: share of should-hits served)",
                   _curves(table, outer, results))  # fmt: skip
    report.write(results)


Round = tuple[np.ndarray, np.ndarray, dict[tuple[float, int], np.ndarray]]


def _outer(table: Table, extra: Table, seed: int) -> Round:
    """Fold numbers, held-out scores, and per gate and method each fold's operating point."""
    fold = folds_of(table.group, seed)
    score = np.zeros(len(table.pairs))
    points = {(gate, column): np.zeros(FOLDS) for gate in GATES for column in (0, 1)}
    for number in range(FOLDS):
        seen, unseen = fold != number, fold == number
        score[unseen] = fit(*joined(table, seen, extra), seed).predict_proba(table.x[unseen])[:, 1]
        inner = held_out_scores(table, seen, extra, seed, INNER)
        for gate in GATES:
            for column, values in enumerate((served_score(inner, table, gate), _gated(table, gate))):
                points[gate, column][number] = operating_point(values[seen], table.same[seen], WRONG)
    return fold, score, points


def _gated(table: Table, gate: float) -> np.ndarray:
    return np.where(table.cosine >= gate, table.cosine, -1.0)


def _served(table: Table, rounds: Round, gate: float, column: int) -> np.ndarray:
    fold, score, points = rounds
    values = (served_score(score, table, gate), _gated(table, gate))[column]
    return values >= points[gate, column][fold]


def _figures(served: Sequence[np.ndarray], same: np.ndarray) -> str:
    parts = []
    for name, rows in (("hits", same), ("wrong", ~same)):
        count = float(np.mean([one[rows].sum() for one in served]))
        low, high = wilson(count, int(rows.sum()))
        parts.append(f"{name} {count / rows.sum():.1%} [{low:.1%}, {high:.1%}]")
    return ", ".join(parts)


def _chats() -> str:
    """Two chats can share an answer only where everything before the last user text is the same."""
    items = conversations()
    wrong = met = differing = 0
    for item in items:
        one, other = (_identity(item[side]) for side in ("a", "b"))
        differs = item["a"][:-1] != item["b"][:-1]  # type: ignore[index]
        differing += differs
        reachable = one.partition == other.partition
        met += reachable
        wrong += reachable and not item["same_answer"]
    return f"{len(items)} pairs, {differing} with differing history, {met} in one partition, {wrong} wrong"


def _identity(messages: object) -> Identity:
    assert isinstance(messages, list)
    prompt = "".join(f"<{message['role']}>{message['content']}</{message['role']}>" for message in messages)
    request = GenerationRequest(
        id="", arrival=0.0, tenant="t", route="", prompt_token_ids=tuple(prompt.encode()), prompt_text=prompt,
        user_text=messages[-1]["content"], sampling=SamplingParams(max_tokens=64, temperature=0.0),
    )  # fmt: skip
    found = identify(request, ServedModel(name="m", weights="w"), embedder="minilm")
    assert isinstance(found, Identity)
    return found


def _curves(table: Table, outer: Sequence[Round], results: Path) -> list[str]:
    """The whole curves go into the drawing; the lines quote them where an operator might stand."""
    score = np.mean([rounds[1] for rounds in outer], axis=0)
    curves = {}
    for gate in GATES:
        curves[f"verifier, gate {gate:.2f}"] = served_score(score, table, gate)
        curves[f"cosine, gate {gate:.2f}"] = _gated(table, gate)
    lines, drawn = [], {}
    for name, values in curves.items():
        drawn[name] = _curve(values, table.same)
        quoted = [max(hits for wrong, hits in drawn[name] if wrong <= at) for at in QUOTED]
        lines.append(
            f"{name}: "
            + "  ".join(f"{at:.0%}: {hits:.0%}" for at, hits in zip(QUOTED, quoted, strict=True))
            + f"  all: {drawn[name][-1][0]:.0%}: {drawn[name][-1][1]:.0%}"
        )
    results.mkdir(parents=True, exist_ok=True)
    (results / "cache_quality.svg").write_text(_svg(drawn), encoding="utf-8")
    return lines


def _curve(values: np.ndarray, same: np.ndarray) -> list[tuple[float, float]]:
    """Shares of traps and of should-hits served at every score that a candidate has, from none to all."""
    found = [(0.0, 0.0)]
    for score in np.unique(values[values >= 0])[::-1]:
        served = values >= score
        found.append((float(served[~same].mean()), float(served[same].mean())))
    return found


_LEFT, _TOP, _WIDTH, _HEIGHT = 60, 20, 560, 330
_WIDEST = 0.7  # share of traps at the right edge: more pass no gate


def _svg(curves: dict[str, list[tuple[float, float]]]) -> str:
    colours = ("#1b6ca8", "#9aa5b1", "#0b8f5a", "#d0b48a")
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="680" height="420" font-family="sans-serif">',
             f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#333"/>',
             f'<text x="250" y="{bottom + 42}" font-size="13">share of traps served</text>',
             '<text x="8" y="14" font-size="13">share of should-hits served</text>']  # fmt: skip
    for share in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        y = bottom - share * _HEIGHT
        parts.append(f'<text x="24" y="{y + 4:.0f}" font-size="11">{share:.0%}</text>')
        parts.append(f'<path d="M{_LEFT} {y:.0f}H{right}" stroke="#eee"/>')
        if share <= _WIDEST:
            x = _LEFT + share / _WIDEST * _WIDTH
            parts.append(f'<text x="{x - 10:.0f}" y="{bottom + 18}" font-size="11">{share:.0%}</text>')
    x = _LEFT + 0.05 / _WIDEST * _WIDTH
    parts.append(f'<path d="M{x:.0f} {_TOP}V{bottom}" stroke="#c33" stroke-dasharray="4"/>')
    parts.append(f'<text x="{x + 3:.0f}" y="{_TOP + 10}" font-size="11" fill="#c33">5 %</text>')
    for number, (name, points) in enumerate(curves.items()):
        path = " ".join(
            f"{_LEFT + wrong / _WIDEST * _WIDTH:.1f},{bottom - hits * _HEIGHT:.1f}" for wrong, hits in points
        )
        colour = colours[number % len(colours)]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="440" y="{270 + 18 * number}" font-size="12" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
