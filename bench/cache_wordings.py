"""Many wordings of the questions in fow-cache, whose answers are known: a question's wordings share its
answer, and two questions share theirs where a chain of labelled pairs says so."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.cache_data import OPENINGS, SAME_START, Groups, Pair, slip
from ferry_runtime.cache.semantic.features import compare, features
from ferry_runtime.cache.semantic.verifier import rule_against
from ferry_runtime.cache.semantic.words import read

_LEADS = (
    "I was wondering, ", "Sorry to bother you, but ", "My question is this: ", "I can't find it anywhere: ",
    "Asking for a colleague: ", "Just checking, ", *OPENINGS,
)  # fmt: skip
_TAILS = (
    " Thanks!", " Thank you in advance.", " I'd like to know today.", " Can you help?",
    " I looked everywhere.", " It is for a friend.", " please",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    text: str
    answer: str  # names the answer, not what it says


def asked(pairs: Sequence[Pair], each: int, seed: int) -> dict[int, list[Asked]]:
    """``each`` wordings of every question, by group of pairs."""
    draw = random.Random(seed)
    answers = Groups()
    groups: dict[int, dict[str, None]] = {}
    for pair in pairs:
        groups.setdefault(pair.group, {}).update({pair.cached: None, pair.asked: None})
        if pair.same:
            answers.join(pair.cached, pair.asked)
    return {
        group: [
            Asked(wording, answers.find(text)) for text in texts for wording in _wordings(text, each, draw)
        ]
        for group, texts in groups.items()
    }


class Compared:
    """Every wording of a group with every other: cosine, whether a rule bars it, features (n, n, 21)."""

    def __init__(self, items: Sequence[Asked], vectors: dict[str, np.ndarray]) -> None:
        count = len(items)
        unit = np.array([vectors[item.text] for item in items])
        self.answers = np.array([item.answer for item in items])
        self.cosine = unit @ unit.T
        self.barred = np.zeros((count, count), dtype=bool)
        readings = [read(item.text) for item in items]
        rows: dict[tuple[int, int], list[float]] = {}
        for one in range(count):
            for other in range(one):
                pair = compare(readings[one], readings[other])
                self.barred[one, other] = self.barred[other, one] = rule_against(pair) is not None
                rows[one, other] = rows[other, one] = features(float(self.cosine[one, other]), pair)
        width = len(next(iter(rows.values())))
        self.x = np.array(
            [[rows.get((one, other), [0.0] * width) for other in range(count)] for one in range(count)]
        )


def _wordings(text: str, count: int, draw: random.Random) -> list[str]:
    found = {text: None}
    for _ in range(3 * count):
        if len(found) == count:
            break
        found[_wording(text, draw)] = None
    return list(found)


def _wording(text: str, draw: random.Random) -> str:
    """The same question as others may type it: another start, words left out, slips, talk around it."""
    start = next((pair for pair in SAME_START if text.startswith(pair[0])), None)
    if start is not None and draw.random() < 0.5:
        text = start[1] + text[len(start[0]) :]
    if draw.random() < 0.35:
        text = re.sub(r"\b(the|a|an|my|your) ", "", text)
    if draw.random() < 0.5:
        text = slip(text.lower().rstrip("?!."), draw)
    if draw.random() < 0.3:
        text = slip(text, draw)
    if draw.random() < 0.5:
        text = draw.choice(_LEADS) + text[0].lower() + text[1:]
    return text + draw.choice(_TAILS) if draw.random() < 0.5 else text
