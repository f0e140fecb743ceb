"""Train the cache's verifier and write verifier.json with its report.

    python -m bench.cache_train            # writes both
    python -m bench.cache_train --dry-run  # prints the report only

The operating point is chosen on scores of folds that the scoring trees have not seen: the lowest
score at which at most `WRONG` of the traps behind the gate are served.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier

from bench.cache_data import Pair, altered, embed, labelled_pairs
from ferry_runtime.cache.semantic.features import NAMES, compare, features
from ferry_runtime.cache.semantic.verifier import LearnedVerifier, rule_against
from ferry_runtime.cache.semantic.words import read
from ferry_runtime.embedding.location import embedder_directory

HERE = Path(__file__).parent
TARGET = HERE.parent / "runtime/src/ferry_runtime/cache/semantic/verifier.json"
REPORT = HERE / "cache_verifier_report.md"
WRONG = 0.03  # of traps, on held-out folds; the promise is 0.05
GREY_WRONG = 0.15
FOLDS = 10
ALTERED_WEIGHT = 0.3  # a made pair counts less than one that somebody wrote
SEED = 7


class Table:
    """Pairs as the trees see them."""

    def __init__(self, pairs: Sequence[Pair], vectors: dict[str, np.ndarray]) -> None:
        self.pairs = list(pairs)
        self.cosine = np.array([float(vectors[p.cached] @ vectors[p.asked]) for p in pairs])
        compared = [compare(read(p.cached), read(p.asked)) for p in pairs]
        self.barred = np.array([rule_against(pair) is not None for pair in compared])
        self.x = np.array([features(c, pair) for c, pair in zip(self.cosine, compared, strict=True)])
        self.same = np.array([p.same for p in pairs])
        self.group = np.array([p.group for p in pairs])


def fit(x: np.ndarray, same: np.ndarray, weight: np.ndarray, seed: int) -> GradientBoostingClassifier:
    trees = GradientBoostingClassifier(
        n_estimators=120, max_depth=3, learning_rate=0.06, subsample=0.7, random_state=seed
    )
    return trees.fit(x, same, sample_weight=weight)


def joined(table: Table, rows: np.ndarray, extra: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows: the labelled ones, and those made from their questions."""
    own = {table.pairs[row].cached for row in np.flatnonzero(rows)}
    made = np.array([pair.cached in own for pair in extra.pairs])
    weight = np.concatenate([np.ones(rows.sum()), np.full(made.sum(), ALTERED_WEIGHT)])
    return (
        np.concatenate([table.x[rows], extra.x[made]]),
        np.concatenate([table.same[rows], extra.same[made]]),
        weight,
    )


def folds_of(group: np.ndarray, seed: int, count: int = FOLDS) -> np.ndarray:
    unique = np.unique(group)
    place = dict(zip(unique, np.random.RandomState(seed).permutation(len(unique)) % count, strict=True))
    return np.array([place[value] for value in group])


def held_out_scores(
    table: Table, rows: np.ndarray, extra: Table, seed: int, count: int = FOLDS
) -> np.ndarray:
    """For each of ``rows``, the score by trees that saw nothing of its group."""
    scores = np.zeros(len(table.pairs))
    fold = folds_of(table.group, seed, count)
    for number in range(count):
        seen, unseen = rows & (fold != number), rows & (fold == number)
        if unseen.any():
            scores[unseen] = fit(*joined(table, seen, extra), seed).predict_proba(table.x[unseen])[:, 1]
    return scores


def operating_point(score: np.ndarray, same: np.ndarray, wrong: float) -> float:
    """The lowest score that lets through at most ``wrong`` of all traps. Barred or gated pairs
    carry a score of -1."""
    traps = np.sort(score[~same])[::-1]
    return float(max(np.nextafter(traps[int(wrong * len(traps))], 2.0), 0.05))


def served_score(score: np.ndarray, table: Table, gate: float) -> np.ndarray:
    return np.where((table.cosine >= gate) & ~table.barred, score, -1.0)


def exported(trees: GradientBoostingClassifier, accept: float, grey: float) -> dict[str, Any]:
    data: dict[str, Any] = {"features": list(NAMES), "accept": round(accept, 4), "grey": round(grey, 4)}
    prior = trees.init_.class_prior_[1]
    data["start"] = float(np.log(prior / (1 - prior)))
    data |= {name: [] for name in ("roots", "feature", "cut", "left", "right")}
    for (estimator,) in trees.estimators_:
        tree, base = estimator.tree_, len(data["feature"])
        data["roots"].append(base)
        for node in range(tree.node_count):
            leaf = tree.children_left[node] < 0
            value = trees.learning_rate * tree.value[node][0][0] if leaf else tree.threshold[node]
            data["feature"].append(-1 if leaf else int(tree.feature[node]))
            data["cut"].append(float(value))
            data["left"].append(-1 if leaf else int(tree.children_left[node]) + base)
            data["right"].append(-1 if leaf else int(tree.children_right[node]) + base)
    return data


def tables() -> tuple[Table, Table]:
    pairs = labelled_pairs()
    made = altered(sorted({pair.cached for pair in pairs}), SEED)
    vectors = embed([t for p in (*pairs, *made) for t in (p.cached, p.asked)], embedder_directory())
    made += neighbours(pairs, vectors, SEED)
    return Table(pairs, vectors), Table(made, vectors)


def neighbours(pairs: Sequence[Pair], vectors: dict[str, np.ndarray], seed: int) -> list[Pair]:
    """Different questions: for each one a near one and any one of another group. Without them the
    trees have seen no two questions that are simply about different things."""
    group = {pair.cached: pair.group for pair in pairs}
    texts = sorted(group)
    draw = np.random.RandomState(seed)
    cosine = np.array([vectors[text] for text in texts]) @ np.array([vectors[text] for text in texts]).T
    made = []
    for number, text in enumerate(texts):
        others = [row for row in np.argsort(-cosine[number]) if group[texts[row]] != group[text]]
        # The very nearest may ask the same thing in other words; the labels do not say.
        for row, kind in ((others[draw.randint(3, 12)], "near"), (draw.choice(others), "unrelated")):
            made.append(Pair(text, texts[row], False, kind))
    return made


def report(table: Table, extra: Table, score: np.ndarray, data: dict[str, Any]) -> str:
    lines = [
        "# Verifier: training report",
        "",
        f"{len(table.pairs)} labelled pairs of fow-cache (CC BY 4.0, Mabon ap Gwyn) in "
        f"{len(np.unique(table.group))} groups; {len(extra.pairs)} made pairs of weight {ALTERED_WEIGHT}.",
        f"{len(data['roots'])} trees, {len(data['feature'])} nodes; accept ≥ {data['accept']}, "
        f"grey ≥ {data['grey']}.",
        "The word lists of `lexicon.py` were written after reading a sample of these pairs, so a part of "
        "what is measured here is not blind. `bench/cache_quality.py` is the benchmark.",
        "",
        "| kind | pairs | same answer | at cosine ≥ 0.80 | barred by a rule | served at 0.80 |",
        "|---|---|---|---|---|---|",
    ]
    served = served_score(score, table, 0.80) >= data["accept"]
    kinds = np.array([pair.kind for pair in table.pairs])
    for kind in sorted(set(kinds)):
        rows = kinds == kind
        share = [f"{value[rows].mean():.0%}" for value in (table.cosine >= 0.80, table.barred, served)]
        answer = "yes" if table.same[rows].all() else "no"
        lines.append(f"| {kind} | {rows.sum()} | {answer} | {' | '.join(share)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dry-run", action="store_true")
    dry_run = parser.parse_args().dry_run
    table, extra = tables()
    everything = np.ones(len(table.pairs), dtype=bool)
    score = held_out_scores(table, everything, extra, SEED)
    reachable = served_score(score, table, 0.80)
    accept = operating_point(reachable, table.same, WRONG)
    grey = operating_point(reachable, table.same, GREY_WRONG)
    trees = fit(*joined(table, everything, extra), SEED)
    data = exported(trees, accept, min(grey, accept))
    verifier = LearnedVerifier.load(data)
    ours = np.array([verifier.trees.score(list(row)) for row in table.x])
    if not np.allclose(ours, trees.predict_proba(table.x)[:, 1], atol=1e-6):
        raise SystemExit("The exported trees do not score as the trained ones do.")
    text = report(table, extra, score, data)
    print(text)
    if not dry_run:
        TARGET.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")
        REPORT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
