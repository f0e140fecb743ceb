"""What the load test asks."""

from __future__ import annotations

from collections import Counter

from ferry_runtime.api.dashboard.scenarios import Pattern, scenario


def test_unique_questions_never_repeat_and_are_not_kept() -> None:
    asked = scenario(Pattern.UNIQUE, 300, seed=3)
    assert len({question.prompt for question in asked.questions}) == 300
    assert {question.cache_control for question in asked.questions} == {"no-cache, no-store"}
    assert not asked.first


def test_cached_questions_have_all_been_asked_before() -> None:
    asked = scenario(Pattern.CACHED, 100, seed=3)
    assert {question.prompt for question in asked.questions} <= {question.prompt for question in asked.first}


def test_about_three_in_ten_repeat() -> None:
    asked = scenario(Pattern.REPEATED, 500, seed=3).questions
    repeats = sum(count - 1 for count in Counter(question.prompt for question in asked).values())
    assert 0.2 < repeats / 500 < 0.4


def test_a_seed_decides_everything() -> None:
    for pattern in Pattern:
        assert scenario(pattern, 20, seed=5) == scenario(pattern, 20, seed=5)
    one, other = (scenario(Pattern.UNIQUE, 20, seed) for seed in (5, 6))
    assert not {q.prompt for q in one.questions} & {q.prompt for q in other.questions}
