"""Do labels of single entries gain hits at no more wrong answers? Replayed on fow-cache's questions in many
wordings, each group of pairs a partition of its own, asked in random order.

For every fold the verifier is trained, and its operating point chosen, on the other folds alone. What the
cache misses it stores, as it does in service, so a wording that missed answers later ones itself: labels
gain only what that leaves. A miss whose best candidate was in doubt labels it; so does a share of the hits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.cache_data import embed
from bench.cache_train import (
    FOLDS,
    GREY_WRONG,
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
from bench.cache_wordings import Compared, asked
from bench.environment import read_environment
from bench.report import Report
from ferry_runtime.cache.labels import MOST_LABELS
from ferry_runtime.cache.semantic.learning import SPREAD, step, threshold
from ferry_runtime.cache.shadow import SHARE, wilson
from ferry_runtime.embedding.location import embedder_directory

GATE = 0.80
# Wordings of each question, of every nth group of pairs.
SHAPES = {"12 wordings": (12, 1), "48 wordings of every sixth question": (48, 6)}
ORDERS = 5
INNER = 5
SEED = 1


@dataclass(frozen=True, slots=True)
class Scored:
    """One group as the held-out verifier sees it. ``score`` is -1 where gate or rules keep a pair out."""

    compared: Compared
    score: np.ndarray
    accept: float
    grey: float


@dataclass
class Tally:
    lookups: int = 0
    right: int = 0
    wrong: int = 0
    labels: int = 0

    def line(self) -> str:
        hits = self.right + self.wrong
        return (
            f"right hits {_share(self.right, self.lookups)} and wrong {_share(self.wrong, self.lookups)} "
            f"of lookups; wrong {_share(self.wrong, hits)} of hits; {self.labels} labels"
        )


def _share(count: int, total: int) -> str:
    low, high = wilson(count, total)
    return f"{count / max(1, total):.2%} [{low:.2%}, {high:.2%}]"


@dataclass(frozen=True, slots=True)
class Policy:
    """``false_right`` and ``false_wrong``: how often the judge errs; ``judged``: of what it could judge, the
    share that it has time for and does not leave open."""

    name: str
    learns: bool = True
    judged: float = 1.0
    false_right: float = 0.0
    false_wrong: float = 0.0


POLICIES = (
    Policy("verifier alone", learns=False),
    Policy("labels, a judge without faults"),
    Policy("labels, 4 in 10 pairs judged", judged=0.4),
    Policy("labels, the judge errs as on texts", judged=0.4, false_right=0.04, false_wrong=0.12),
    Policy("labels, a third of the right pairs called wrong", judged=0.6, false_right=0.03, false_wrong=0.33),
)


def run(results: Path) -> None:
    report = Report("cache_learning", read_environment())
    for shape, groups in scored_groups(*tables()).items():
        report.fact(f"{shape}: questions", sum(len(group.score) for group in groups))
        report.fact(f"{shape}: likeliest spread", f"{likeliest_spread(groups):.1f}, {SPREAD} built in")
        for policy in POLICIES:
            tallies = [replayed(groups, policy, order) for order in range(ORDERS)]
            names = Tally.__annotations__
            mean = Tally(*(round(sum(getattr(one, name) for one in tallies) / ORDERS) for name in names))
            report.fact(f"{shape}: {policy.name}", mean.line())
            by_order = ", ".join(f"{one.right} / {one.wrong}" for one in tallies)
            report.fact(f"{shape}: {policy.name}, right / wrong hits in each order", by_order)
    report.write(results)


def scored_groups(table: Table, extra: Table) -> dict[str, list[Scored]]:
    compared = {shape: _compared(table, *parts) for shape, parts in SHAPES.items()}
    found: dict[str, list[Scored]] = {shape: [] for shape in SHAPES}
    fold = folds_of(table.group, SEED)
    for number in range(FOLDS):
        seen = fold != number
        trees = fit(*joined(table, seen, extra), SEED)
        inner = served_score(held_out_scores(table, seen, extra, SEED, INNER), table, GATE)
        accept, grey = (operating_point(inner[seen], table.same[seen], w) for w in (WRONG, GREY_WRONG))
        for shape, groups in compared.items():
            for group in sorted(set(table.group[~seen].tolist()) & groups.keys()):
                one = groups[group]
                score = trees.predict_proba(one.x.reshape(-1, one.x.shape[2]))[:, 1].reshape(one.cosine.shape)
                score = np.where((one.cosine >= GATE) & ~one.barred, score, -1.0)
                found[shape].append(Scored(one, score, accept, min(grey, accept)))
    return found


def _compared(table: Table, each: int, every: int) -> dict[int, Compared]:
    items = {group: found for group, found in asked(table.pairs, each, SEED).items() if group % every == 0}
    vectors = embed([item.text for group in items.values() for item in group], embedder_directory())
    return {group: Compared(found, vectors) for group, found in items.items()}


@dataclass
class _Cache:
    """One partition: its entries, and what is known of them."""

    group: Scored
    policy: Policy
    draw: np.random.RandomState
    tally: Tally
    entries: list[int] = field(default_factory=list)
    labels: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)

    def ask(self, question: int) -> None:
        self.tally.lookups += 1
        cosine, score = self.group.compared.cosine[question], self.group.score[question]
        near = sorted(
            (entry for entry in self.entries if score[entry] >= 0), key=lambda entry: -cosine[entry]
        )
        near = near[:5]
        for entry in near:
            if score[entry] >= self._threshold(entry):
                fits = self._fits(entry, question)
                self.tally.right += fits
                self.tally.wrong += not fits
                if self.draw.random_sample() < SHARE:
                    self._label(entry, question)
                return
        doubtful = [entry for entry in near if score[entry] >= self.group.grey]
        if doubtful:
            best = max(doubtful, key=lambda entry: score[entry])
            self._label(best, question, also=question)
        self.entries.append(question)

    def _threshold(self, entry: int) -> float:
        known = self.labels.get(entry)
        if not known or not self.policy.learns:
            return self.group.accept
        return threshold(known, self.group.accept, self.group.grey)

    def _fits(self, entry: int, question: int) -> bool:
        return bool(self.group.compared.answers[entry] == self.group.compared.answers[question])

    def _label(self, entry: int, question: int, also: int | None = None) -> None:
        if self.draw.random_sample() >= self.policy.judged:
            return
        right = self._fits(entry, question)
        false = self.policy.false_wrong if right else self.policy.false_right
        right ^= bool(self.draw.random_sample() < false)
        label = step(float(self.group.score[question][entry])), right
        for one in (entry, also):
            if one is not None:
                known = self.labels.setdefault(one, [])
                known.append(label)
                del known[:-MOST_LABELS]
        self.tally.labels += 1


def replayed(groups: Sequence[Scored], policy: Policy, order: int) -> Tally:
    tally = Tally()
    for number, group in enumerate(groups):
        sequence = np.random.RandomState(1000 * order + number).permutation(len(group.score))
        cache = _Cache(group, policy, np.random.RandomState(7000 * order + number), tally)
        for question in sequence:
            cache.ask(int(question))
    return tally


def likeliest_spread(groups: Sequence[Scored]) -> float:
    """Of the shift between entries, by marginal likelihood over a grid: every entry with the pairs that the
    verifier does not see as certain."""
    spreads = np.arange(0.5, 8.1, 0.5)
    nodes, weights = np.polynomial.hermite_e.hermegauss(31)
    weights = weights / weights.sum()
    likelihood = np.zeros(len(spreads))
    for group in groups[::4]:
        for entry in range(0, len(group.score), 3):
            rows = (group.score[entry] >= 0.05) & (group.score[entry] < 0.8)
            rows[entry] = False
            if not rows.any():
                continue
            score = np.clip(group.score[entry][rows], 0.01, 0.99)
            same = group.compared.answers[rows] == group.compared.answers[entry]
            for number, spread in enumerate(spreads):
                odds = np.log(score / (1 - score))[:, None] + spread * nodes
                each = np.where(same[:, None], -np.logaddexp(0, -odds), -np.logaddexp(0, odds)).sum(0)
                likelihood[number] += np.log((weights * np.exp(each - each.max())).sum()) + each.max()
    return float(spreads[likelihood.argmax()])
