from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferry_runtime.scheduling.cost import OutputEstimator


@given(
    answers=st.lists(st.tuples(st.integers(1, 9000), st.integers(0, 9000)), max_size=50),
    max_tokens=st.integers(1, 9000),
    min_tokens=st.integers(0, 9000),
)
def test_an_estimate_stays_between_what_the_request_allows(answers, max_tokens, min_tokens):
    estimator = OutputEstimator()
    for limit, generated in answers:
        estimator.learn(limit, generated)
    expected = estimator.expect(max_tokens, min_tokens)
    assert min(min_tokens, max_tokens) <= expected <= max_tokens


def test_estimates_approach_what_is_really_generated():
    estimator, chance = OutputEstimator(), random.Random(1)
    for _ in range(200):
        estimator.learn(8000, chance.randint(100, 140))
        estimator.learn(16, 16)
    assert estimator.expect(8000) == pytest.approx(120, rel=0.1)
    assert estimator.expect(16) == 16


def test_estimates_follow_a_change_within_some_dozens_of_answers():
    estimator = OutputEstimator()
    for _ in range(500):
        estimator.learn(1000, 50)
    for _ in range(50):
        estimator.learn(1000, 500)
    assert estimator.expect(1000) == pytest.approx(500, rel=0.05)


def test_a_limit_never_seen_borrows_from_a_larger_one():
    estimator = OutputEstimator()
    estimator.learn(4096, 300)
    estimator.learn(16, 16)
    assert estimator.expect(1000) == 300
    assert estimator.expect(100_000) == 300
    assert estimator.expect(8) == 8


def test_memory_is_bounded_by_the_sizes_of_limits_not_by_answers():
    estimator = OutputEstimator()
    for limit in range(1, 100_000, 7):
        estimator.learn(limit, 1)
    assert len(estimator._averages) <= 17
