"""English as far as comparing two questions needs it: tokens, stems, numbers, opposites."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ferry_runtime.cache.semantic.lexicon import (
    CONTRACTIONS,
    DATE_STEMS,
    DATES,
    FILLERS,
    NEGATING_PREFIXES,
    NEGATORS,
    NUMBER_WORDS,
    OPPOSITES,
    SAME,
    UNITS,
)

_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*|[£$€%°]|[^\W\d_]+(?:'[^\W\d_]+)?", re.UNICODE)
_QUOTES = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-"}
)


def _by_word(pairs: frozenset[frozenset[str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pair in pairs:
        for word in pair:
            found.setdefault(word, set()).update(pair - {word})
    return found


_OPPOSITES_OF = _by_word(OPPOSITES)


@dataclass(frozen=True, slots=True)
class Reading:
    """A question taken apart. ``tokens`` are lower-case words in order, numbers as digits."""

    text: str
    tokens: tuple[str, ...]
    stems: tuple[str, ...]
    content: frozenset[str]
    names: frozenset[str]  # stems of words written with a capital inside the sentence
    numbers: tuple[str, ...]
    units: frozenset[str]
    dates: frozenset[str]
    negations: int


@lru_cache(maxsize=2048)
def read(text: str) -> Reading:
    plain = text.translate(_QUOTES)
    raw = _TOKEN.findall(plain)
    shouting = plain.isupper()
    tokens: list[str] = []
    names: set[str] = set()
    for position, word in enumerate(raw):
        lower = word.lower()
        if position and word[0].isupper() and not shouting and lower not in FILLERS:
            names.add(stem(lower))
        tokens.extend(_spell_out(lower))
    stems = tuple(stem(token) for token in tokens)
    return Reading(
        text=text,
        tokens=tuple(tokens),
        stems=stems,
        content=frozenset(
            s for t, s in zip(tokens, stems, strict=True) if t not in FILLERS and s not in FILLERS
        ),
        names=frozenset(names),
        numbers=tuple(sorted(t for t in tokens if t[0].isdigit())),
        units=_units(tokens),
        dates=frozenset(DATE_STEMS.get(t, t.removesuffix("s")) for t in tokens if t in DATES),
        negations=sum(token in NEGATORS for token in tokens),
    )


def _spell_out(word: str) -> list[str]:
    if word in CONTRACTIONS:
        return CONTRACTIONS[word].split()
    if word.endswith("n't"):
        return [part for part in (word[:-3], "not") if part]
    if "'" in word:
        word = word.split("'", maxsplit=1)[0]
    if word[0].isdigit():
        return [word.replace(",", "").rstrip(".:")]
    return [NUMBER_WORDS.get(word, word)] if word else []


def _units(tokens: list[str]) -> frozenset[str]:
    """Units next to a number, and temperature scales wherever they stand."""
    found = set()
    for position, token in enumerate(tokens):
        beside = tokens[max(0, position - 1) : position + 2]
        near = any(other[0].isdigit() for other in beside if other != token)
        if token in UNITS and (near or token in ("celsius", "fahrenheit", "kelvin")):
            found.add(UNITS[token])
    return frozenset(found)


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Crude on purpose: it only has to bring the forms of one word together."""
    if len(word) <= 3 or word[0].isdigit():
        return word
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x")):
        if word.endswith(ending):
            return word[: -len(ending)] + instead
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) >= 3 and any(vowel in base for vowel in "aeiouy"):
            doubled = len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsz"
            return base[:-1] if doubled else base
    return word.removesuffix("e") if len(word) > 4 else word


def opposed(some: frozenset[str], others: frozenset[str]) -> bool:
    """Does a word of one side turn a word of the other round: listed, or one a negating prefix away?

    The time taken grows with the number of words, not of pairs."""
    if any(not others.isdisjoint(_OPPOSITES_OF.get(word, ())) for word in some):
        return True
    return _negated(some, others) or _negated(others, some)


def _negated(words: frozenset[str], others: frozenset[str]) -> bool:
    return any(prefix + word in others for word in words if len(word) >= 4 for prefix in NEGATING_PREFIXES)


def counterparts(some: frozenset[str], others: frozenset[str]) -> dict[str, str]:
    """A slip or another word for the same, for as many of ``some`` as have one in ``others``; each
    is one word's only. In alphabetical order, so that it is the same pairs each time."""
    alike: dict[object, set[str]] = {}
    for word in others:
        for key in (_outline(word), SAME.get(word)):
            if key is not None:
                alike.setdefault(key, set()).add(word)
    found: dict[str, str] = {}
    taken: set[str] = set()
    for word in sorted(some):
        near = {other for key in _near_outlines(word) for other in alike.get(key, ())}
        for other in sorted(near - taken):
            if misspelt(word, other) or same_meaning(word, other):
                found[word] = other
                taken.add(other)
                break
    return found


def _outline(word: str) -> tuple[str, int]:
    return word[:1], len(word)


def _near_outlines(word: str) -> list[object]:
    """Of every word that `misspelt` or `same_meaning` could bring together with this one."""
    lengths = range(len(word) - 1, len(word) + 2)
    return [*((word[:1], length) for length in lengths), *([SAME[word]] if word in SAME else [])]


def same_meaning(one: str, other: str) -> bool:
    return one in SAME and SAME.get(one) == SAME.get(other)


@lru_cache(maxsize=65536)
def misspelt(one: str, other: str) -> bool:
    """One edit or one swap of neighbours apart, in words long enough for that to be a slip."""
    if min(len(one), len(other)) < 4 or abs(len(one) - len(other)) > 1 or one[0] != other[0]:
        return False
    if len(one) == len(other):
        differing = [place for place in range(len(one)) if one[place] != other[place]]
        if len(differing) == 1:
            return len(one) >= 6
        return (
            len(differing) == 2
            and one[differing[0]] == other[differing[1]]
            and one[differing[1]] == other[differing[0]]
        )
    short, long = sorted((one, other), key=len)
    return len(long) >= 5 and any(long[:place] + long[place + 1 :] == short for place in range(len(long)))
