"""May this entry's answer stand for that question? Rules reject first, then a learned score decides.

The score is a gradient-boosted set of small trees over `features`, as plain numbers in
``verifier.json``; `bench/cache_train.py` makes the file and its report.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib import resources
from typing import Any, Self

from ferry_runtime.cache.semantic.features import NAMES, Comparison, compare, features, reordered, swapped
from ferry_runtime.cache.semantic.words import read
from ferry_runtime.errors import ConfigurationError


class Verdict(StrEnum):
    ACCEPT = "accept"
    GREY = "grey"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Decision:
    """``reason`` is a metric label: the rule that rejected, or "score". ``score`` is 0…1."""

    verdict: Verdict
    reason: str
    score: float = 0.0

    def under(self, threshold: float) -> Decision:
        """By an entry's own threshold instead of the verifier's. What a rule or a hopeless score rejects
        stays rejected, and the same text stays accepted."""
        if self.reason != "score" or self.verdict is Verdict.REJECT:
            return self
        verdict = Verdict.ACCEPT if self.score >= threshold else Verdict.GREY
        return self if verdict is self.verdict else Decision(verdict, "labels", self.score)


# In the order in which they are asked; the first one that is broken is enough.
_RULES: tuple[tuple[str, Callable[[Comparison], bool]], ...] = (
    ("number", lambda pair: pair.numbers_clash),
    ("unit", lambda pair: pair.units_clash),
    ("date", lambda pair: pair.dates_clash),
    ("negation", lambda pair: pair.negation_differs),
    ("antonym", lambda pair: pair.opposed),
    ("entity", lambda pair: pair.names_clash),
    ("order", lambda pair: swapped(pair.one, pair.other) or reordered(pair.one, pair.other)),
)


def rule_against(pair: Comparison) -> str | None:
    """The first rule that forbids sharing an answer, whatever the score says."""
    return next((name for name, broken in _RULES if broken(pair)), None)


@dataclass(frozen=True, slots=True)
class Trees:
    """Flat arrays: node n asks ``value[feature[n]] <= cut[n]``; a leaf has feature -1 and adds
    ``cut[n]`` to the log-odds."""

    start: float
    roots: tuple[int, ...]
    feature: tuple[int, ...]
    cut: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]

    def score(self, values: list[float]) -> float:
        total = self.start
        feature, cut, left, right = self.feature, self.cut, self.left, self.right
        for node in self.roots:
            at = node
            while feature[at] >= 0:
                at = left[at] if values[feature[at]] <= cut[at] else right[at]
            total += cut[at]
        return 1.0 / (1.0 + math.exp(-total))


@dataclass(frozen=True, slots=True)
class LearnedVerifier:
    """``accept`` and ``grey`` are scores; between them an answer is not served, only counted."""

    trees: Trees
    accept: float
    grey: float

    @classmethod
    def load(cls, data: dict[str, Any]) -> Self:
        """Raises ConfigurationError when the file was made for other features."""
        if tuple(data["features"]) != NAMES:
            raise ConfigurationError("The verifier's file was trained on other features: train it again.")
        arrays = {name: tuple(data[name]) for name in ("roots", "feature", "cut", "left", "right")}
        return cls(Trees(start=data["start"], **arrays), data["accept"], data["grey"])

    def decide(self, cosine: float, cached: str, asked: str) -> Decision:
        if cached.strip() == asked.strip():
            return Decision(Verdict.ACCEPT, "same_text", 1.0)
        pair = compare(read(cached), read(asked))
        rule = rule_against(pair)
        if rule is not None:
            return Decision(Verdict.REJECT, rule)
        score = self.trees.score(features(cosine, pair))
        if score >= self.accept:
            return Decision(Verdict.ACCEPT, "score", score)
        return Decision(Verdict.GREY if score >= self.grey else Verdict.REJECT, "score", score)


@lru_cache(maxsize=1)
def shipped() -> LearnedVerifier:
    text = resources.files(__package__).joinpath("verifier.json").read_text(encoding="utf-8")
    return LearnedVerifier.load(json.loads(text))
