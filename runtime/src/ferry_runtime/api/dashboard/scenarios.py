"""The load test's questions: which prompt each request sends, and what it tells the cache. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

_SUBJECTS = (
    *("rivers", "bridges", "harbours", "lighthouses", "tides", "sails", "compasses", "islands", "canals"),
    *("maps", "storms", "anchors", "whales", "ropes", "clocks", "markets", "trains", "gardens", "mountains"),
)
_FORMS = (
    "Write one sentence about {subject}, for reader {reader}.",
    "Name three facts about {subject}; this is question {reader}.",
    "Explain {subject} to visitor {reader} in a few words.",
)
_REPEATED_SHARE = 0.3
_CACHED_QUESTIONS = 5


class Pattern(StrEnum):
    """How much of the traffic the cache has seen before."""

    UNIQUE = "unique"  # nothing, and nothing is kept
    REPEATED = "repeated"  # 30 % ask what was asked before
    CACHED = "cached"  # everything


@dataclass(frozen=True, slots=True)
class Question:
    prompt: str
    cache_control: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """``first`` is asked, and not counted, before ``questions`` are."""

    first: Sequence[Question]
    questions: Sequence[Question]


def scenario(pattern: Pattern, requests: int, seed: int) -> Scenario:
    """The same seed asks the same questions; another seed asks others."""
    dice = random.Random(seed)  # noqa: S311 - a sample, not a secret
    fresh = [_question(dice, seed, number) for number in range(requests)]
    if pattern is Pattern.UNIQUE:
        return Scenario((), [Question(text, "no-cache, no-store") for text in fresh])
    if pattern is Pattern.CACHED:
        known = [Question(text) for text in fresh[:_CACHED_QUESTIONS]]
        return Scenario(known, [dice.choice(known) for _ in range(requests)])
    asked: list[str] = []
    for text in fresh:
        asked.append(dice.choice(asked) if asked and dice.random() < _REPEATED_SHARE else text)
    return Scenario((), [Question(text) for text in asked])


def _question(dice: random.Random, seed: int, number: int) -> str:
    form, subject = dice.choice(_FORMS), dice.choice(_SUBJECTS)
    return form.format(subject=subject, reader=f"{seed % 100_000}-{number}")
