"""Which questions may share an answer, and which must never."""

import json
from importlib import resources
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferry_runtime.cache.semantic import words
from ferry_runtime.cache.semantic.features import NAMES, Comparison, compare, features
from ferry_runtime.cache.semantic.lexicon import NEGATING_PREFIXES, OPPOSITES, SAME
from ferry_runtime.cache.semantic.verifier import Decision, LearnedVerifier, Verdict, rule_against, shipped
from ferry_runtime.cache.semantic.words import Reading, misspelt, read, same_meaning
from ferry_runtime.errors import ConfigurationError


def rule(one: str, other: str) -> str | None:
    return rule_against(compare(read(one), read(other)))


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ("Track order 48213", "Track order 48231", "number"),
        ("Is it free over £50?", "Is it free over £60?", "number"),
        ("Is it open for two weeks?", "Is it open for three weeks?", "number"),
        ("How heavy is 20 kg of sand?", "How heavy is 20 lb of sand?", "unit"),
        ("Water boils at what in Celsius?", "Water boils at what in Fahrenheit?", "unit"),
        ("Are you open on Monday?", "Are you open on Tuesday?", "date"),
        ("What did I pay in March?", "What did I pay in April?", "date"),
        ("Cancel my subscription", "Don't cancel my subscription", "negation"),
        ("Which plans include calls?", "Which plans don't include calls?", "negation"),
        ("How do I enable two-factor login?", "How do I disable two-factor login?", "antonym"),
        ("How do I turn on the alarm?", "How do I turn off the alarm?", "antonym"),
        ("Is it safe for dogs?", "Is it unsafe for dogs?", "antonym"),
        ("How far is it to Lyon?", "How far is it to Nice?", "entity"),
        ("How do I get from Rome to Milan?", "How do I get from Milan to Rome?", "order"),
        ("did anna call ben", "did ben call anna", "order"),
    ],
)
def test_rules_forbid(one: str, other: str, reason: str) -> None:
    assert rule(one, other) == rule(other, one) == reason
    assert shipped().decide(0.999, one, other).verdict is Verdict.REJECT


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How do I reset my password?", "How can I reset my password?"),
        ("What are your opening hours?", "what are your opening hours"),
        ("Can I book a table for 2 people?", "Can I book a table for two people?"),
        ("Where can I find my invoice history?", "Where can I find my invioce history?"),
        ("What's the price?", "What is the price?"),
        ("Is parking free on Sundays?", "Hi, is parking free on Sundays?"),
        ("How do I turn off alerts for my phone?", "For my phone, how do I turn off alerts?"),
    ],
)
def test_rules_let_rewordings_pass(one: str, other: str) -> None:
    assert rule(one, other) is None
    assert shipped().decide(0.97, one, other).verdict is Verdict.ACCEPT


def test_the_same_text_is_always_accepted() -> None:
    assert shipped().decide(1.0, "no way, 3 times", " no way, 3 times ").verdict is Verdict.ACCEPT


def test_unrelated_questions_are_not_accepted() -> None:
    decision = shipped().decide(0.2, "How do I bake bread?", "Where is the nearest station?")
    assert decision.verdict is not Verdict.ACCEPT


TEXTS = st.text(max_size=60) | st.sampled_from(
    ["", "?", "n't", "3 kg", "Don't!", "from A to B", "\u2019", "١٢٣ kg", "²"]
)


@given(TEXTS, TEXTS, st.floats(-1, 1))
def test_any_texts_can_be_compared_in_either_order(one: str, other: str, cosine: float) -> None:
    forth, back = compare(read(one), read(other)), compare(read(other), read(one))
    assert rule_against(forth) == rule_against(back)
    assert features(cosine, forth) == features(cosine, back)
    assert len(features(cosine, forth)) == len(NAMES)
    shipped().decide(cosine, one, other)


@given(TEXTS)
def test_nothing_sets_a_text_apart_from_itself(text: str) -> None:
    pair = compare(read(text), read(text))
    assert rule_against(pair) is None
    assert pair.only_one == pair.only_other == ()


@pytest.mark.parametrize(
    ("one", "other", "slip"),
    [
        ("invoice", "invioce", True), ("statement", "statment", True), ("booking", "bokoing", True),
        ("cat", "cut", False), ("form", "from", True), ("lock", "look", False), ("price", "prices", True),
        ("boat", "goat", False),
    ],
)  # fmt: skip
def test_slips_of_the_keyboard(one: str, other: str, slip: bool) -> None:
    assert misspelt(one, other) is misspelt(other, one) is slip


def test_a_file_for_other_features_is_refused() -> None:
    text = resources.files("ferry_runtime.cache.semantic").joinpath("verifier.json").read_text()
    data = json.loads(text)
    with pytest.raises(ConfigurationError, match="other features"):
        LearnedVerifier.load(data | {"features": data["features"][:-1]})


# What the quick ways of comparing replace: every word with every word, every rotation in turn.


def plainly_apart(one: Reading, other: Reading) -> tuple[tuple[str, ...], tuple[str, ...]]:
    only_one, only_other = sorted(one.content - other.content), sorted(other.content - one.content)
    for left in list(only_one):
        for right in list(only_other):
            if misspelt(left, right) or same_meaning(left, right):
                only_one.remove(left)
                only_other.remove(right)
                break
    return tuple(only_one), tuple(only_other)


def plainly_opposed(one: Reading, other: Reading) -> bool:
    return any(_opposite(left, right) for left in _loose(one, other) for right in _loose(other, one))


def _loose(mine: Reading, theirs: Reading) -> set[str]:
    have = set(theirs.tokens) | set(theirs.stems)
    pairs = zip(mine.tokens, mine.stems, strict=True)
    return {word for pair in pairs if not have & set(pair) for word in pair}


def _opposite(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    negated = len(short) >= 4 and any(long == prefix + short for prefix in NEGATING_PREFIXES)
    return negated or frozenset((one, other)) in OPPOSITES


def plain_order(pair: Comparison) -> float:
    common = pair.one.content & pair.other.content
    left = [stem for stem in dict.fromkeys(pair.one.stems) if stem in common]
    right = [stem for stem in dict.fromkeys(pair.other.stems) if stem in common]
    if len(left) < 2:
        return 1.0
    turned = [right[shift:] + right[:shift] for shift in range(len(right))]
    steps = [sum(left.index(a) < left.index(b) for a, b in pairwise(words)) for words in turned]
    return max(steps) / (len(left) - 1)


VOCABULARY = [
    *sorted({word for pair in OPPOSITES for word in pair} | set(SAME)),
    "invoice", "invioce", "invoices", "invoce", "legible", "illegible", "safe", "unsafe", "Rome", "Milan",
    "from", "to", "not", "don't", "3", "three", "password", "passwrod", "passwords", "parcel", "parcle",
]  # fmt: skip
SENTENCES = st.lists(st.sampled_from(VOCABULARY), max_size=12).map(" ".join)


@settings(max_examples=400, deadline=None)
@given(SENTENCES, SENTENCES)
def test_comparing_quickly_is_comparing_every_word_with_every_word(first: str, second: str) -> None:
    one, other = read(first), read(second)
    pair = compare(one, other)
    assert (pair.only_one, pair.only_other) == plainly_apart(one, other)
    assert pair.opposed is plainly_opposed(one, other)
    assert features(0.9, pair)[NAMES.index("order")] == plain_order(pair)


def test_comparing_long_texts_takes_time_by_their_words_and_not_by_pairs_of_words(monkeypatch) -> None:
    compared = 0

    def counted(one: str, other: str) -> bool:
        nonlocal compared
        compared += 1
        return misspelt(one, other)

    monkeypatch.setattr(words, "misspelt", counted)
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    first, second = (
        " ".join(alphabet[n % 26] + tail * (3 + n % 7) + alphabet[n // 26] for n in range(300))
        for tail in "xy"
    )
    assert len(read(first).content) == len(read(second).content) == 300
    compare(read(first), read(second))
    assert compared < 300 * 30


def test_rules_are_asked_no_further_than_the_first_that_is_broken(monkeypatch) -> None:
    def never(one: frozenset[str], other: frozenset[str]) -> bool:
        raise AssertionError("asked though the numbers clash")

    monkeypatch.setattr("ferry_runtime.cache.semantic.features.opposed", never)
    assert rule("Track order 1, please", "Track order 2, please") == "number"


@pytest.mark.parametrize("threshold", [0.0, 0.4, 0.9])
def test_an_entrys_threshold_overrules_scores_alone(threshold: float) -> None:
    barred = Decision(Verdict.REJECT, "number")
    hopeless = Decision(Verdict.REJECT, "score", 0.01)
    same = Decision(Verdict.ACCEPT, "same_text", 1.0)
    for decision in (barred, hopeless, same):
        assert decision.under(threshold) is decision
    for score in (0.3, 0.8):
        for verdict in (Verdict.GREY, Verdict.ACCEPT):
            expected = Verdict.ACCEPT if score >= threshold else Verdict.GREY
            assert Decision(verdict, "score", score).under(threshold).verdict is expected


def test_a_decision_that_the_threshold_does_not_change_is_left_as_it_is() -> None:
    decision = Decision(Verdict.GREY, "score", 0.3)
    assert decision.under(0.5) is decision
    assert decision.under(0.2).reason == "labels"
