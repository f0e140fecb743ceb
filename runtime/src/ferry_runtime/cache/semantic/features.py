"""What two questions have in common and what sets them apart, as numbers for the verifier."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, pairwise

from ferry_runtime.cache.semantic.lexicon import QUESTION_WORDS
from ferry_runtime.cache.semantic.words import Reading, counterparts, opposed


@dataclass(frozen=True)  # without slots: what is costly is computed when asked for, and once
class Comparison:
    """Content words of each side that have no counterpart on the other."""

    one: Reading
    other: Reading
    only_one: tuple[str, ...]
    only_other: tuple[str, ...]

    @cached_property
    def opposed(self) -> bool:
        return opposed(_loose(self.one, self.other), _loose(self.other, self.one))

    @property
    def numbers_clash(self) -> bool:
        """Both name numbers, and not the same ones."""
        return bool(self.one.numbers and self.other.numbers and self.one.numbers != self.other.numbers)

    @property
    def dates_clash(self) -> bool:
        return bool(self.one.dates and self.other.dates and self.one.dates != self.other.dates)

    @property
    def units_clash(self) -> bool:
        return bool(self.one.units and self.other.units and self.one.units.isdisjoint(self.other.units))

    @property
    def negation_differs(self) -> bool:
        return (self.one.negations - self.other.negations) % 2 == 1

    @property
    def loose_names(self) -> int:
        return len(self.one.names & set(self.only_one)) + len(self.other.names & set(self.only_other))

    @property
    def names_clash(self) -> bool:
        """Each side has a name that the other lacks."""
        return bool(self.one.names & set(self.only_one)) and bool(self.other.names & set(self.only_other))


def compare(one: Reading, other: Reading) -> Comparison:
    only_one, only_other = one.content - other.content, other.content - one.content
    found = counterparts(only_one, only_other)
    return Comparison(
        one, other, tuple(sorted(only_one - found.keys())), tuple(sorted(only_other - set(found.values())))
    )


def _loose(mine: Reading, theirs: Reading) -> frozenset[str]:
    """Every word that only this side has, function words too: "on" against "off"."""
    have = {*theirs.tokens, *theirs.stems}
    return frozenset(
        word
        for token, stem in zip(mine.tokens, mine.stems, strict=True)
        if token not in have and stem not in have
        for word in (token, stem)
    )


NAMES = (
    "cosine", "overlap", "fewest_only", "most_only", "both_only", "numbers_differ", "number_on_one_side",
    "units_differ", "dates_differ", "negation_differs", "opposed", "name_against_another", "name_on_one_side",
    "order", "swapped", "question_word_differs", "length_ratio", "shorter", "letters", "same_content",
    "content",
)  # fmt: skip


def features(cosine: float, pair: Comparison) -> list[float]:
    """One value per name in NAMES; symmetric, so that it does not matter which question came first."""
    one, other = pair.one, pair.other
    few, many = sorted((len(pair.only_one), len(pair.only_other)))
    union = len(one.content | other.content) or 1
    shorter, longer = sorted((len(one.tokens), len(other.tokens)))
    return [
        cosine,
        1.0 - (few + many) / (2 * union),
        float(few),
        float(many),
        float(min(few, 1) * many),
        float(pair.numbers_clash),
        float(one.numbers != other.numbers and not pair.numbers_clash),
        float(one.units != other.units),
        float(one.dates != other.dates),
        float(pair.negation_differs),
        float(pair.opposed),
        float(pair.loose_names and few > 0),
        float(pair.loose_names),
        _order(one, other),
        float(swapped(one, other)),
        float(_question_words(one) != _question_words(other)),
        shorter / (longer or 1),
        float(shorter),
        _trigrams(one.text, other.text),
        float(one.content == other.content),
        float(min(len(one.content), len(other.content))),
    ]


def swapped(one: Reading, other: Reading) -> bool:
    """The same content words where two have changed places around a direction: from A to B, B to A."""
    if one.content != other.content:
        return False
    return _directions(one) != _directions(other)


def reordered(one: Reading, other: Reading) -> bool:
    """The same content words in another order than one turned clause explains: who calls whom."""
    return one.content == other.content and _order(one, other) < 1.0


def _directions(reading: Reading) -> frozenset[tuple[str, str]]:
    found = set()
    for position, token in enumerate(reading.tokens[:-1]):
        if token in ("from", "into", "than", "before", "after", "without", "over", "under"):
            rest = islice(reading.stems, position + 1, None)
            following = next((stem for stem in rest if stem in reading.content), None)
            if following is not None:
                found.add((token, following))
    return frozenset(found)


def _order(one: Reading, other: Reading) -> float:
    """Share of common content words that stand in the same order, up to one rotation."""
    common = one.content & other.content
    left = [stem for stem in dict.fromkeys(one.stems) if stem in common]
    right = [stem for stem in dict.fromkeys(other.stems) if stem in common]
    if len(left) < 2:
        return 1.0
    place = {stem: position for position, stem in enumerate(left)}
    # Around the circle at least one step goes back; the best rotation begins right after such a step.
    forward = sum(place[a] < place[b] for a, b in pairwise([*right, right[0]]))
    return forward / (len(left) - 1)


def _question_words(reading: Reading) -> str:
    text = " ".join(reading.tokens)
    return next((word for word in QUESTION_WORDS if text.startswith(word) or f" {word} " in text), "")


def _trigrams(one: str, other: str) -> float:
    left, right = _letters(one), _letters(other)
    return 2 * len(left & right) / (len(left) + len(right) or 1)


@lru_cache(maxsize=256)  # one question is compared with several
def _letters(text: str) -> frozenset[str]:
    plain = "".join(letter for letter in text.lower() if letter.isalnum())
    return frozenset(plain[place : place + 3] for place in range(max(1, len(plain) - 2)))
