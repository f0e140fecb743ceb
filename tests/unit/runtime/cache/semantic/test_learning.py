"""An entry's own threshold: labels move it, and never past what the verifier forbids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferry_runtime.cache.semantic.learning import MOST_WRONG, NEVER, step, threshold, wrong_probability

ACCEPT, GREY = 0.6, 0.05
labels = st.lists(st.tuples(st.integers(0, 127), st.booleans()), max_size=16)


def learned(*told: tuple[float, bool]) -> float:
    return threshold([(step(score), right) for score, right in told], ACCEPT, GREY)


def test_without_labels_the_verifier_decides() -> None:
    assert learned() == ACCEPT


def test_one_right_label_moves_little_and_several_move_it_past_their_score() -> None:
    assert learned((0.4, True)) > 0.55
    assert learned(*[(0.4, True)] * 5) < 0.4


def test_a_wrong_label_makes_stricter_at_once_and_more_so_with_each() -> None:
    once, thrice = learned((0.4, False)), learned(*[(0.4, False)] * 3)
    assert ACCEPT < once < thrice
    assert learned(*[(0.99, False)] * 16) == NEVER


def test_contradicting_labels_cancel_out() -> None:
    assert learned(*[(0.4, True)] * 2, (0.4, False)) >= ACCEPT


@given(labels)
def test_it_never_reaches_what_the_verifier_rejects(told: list[tuple[int, bool]]) -> None:
    assert GREY <= threshold(told, ACCEPT, GREY) <= NEVER


@given(labels, st.integers(0, 127))
def test_more_evidence_for_an_entry_never_makes_it_stricter_nor_against_it_looser(
    told: list[tuple[int, bool]], at: int
) -> None:
    before = threshold(told, ACCEPT, GREY)
    assert threshold([*told, (at, True)], ACCEPT, GREY) <= before
    assert threshold([*told, (at, False)], ACCEPT, GREY) >= before


@given(labels)
def test_a_lower_threshold_keeps_the_bound_on_wrong_answers(told: list[tuple[int, bool]]) -> None:
    at = threshold(told, ACCEPT, GREY)
    if at < ACCEPT:
        assert wrong_probability(told)[min(127, step(at) + 1)] <= MOST_WRONG


@given(labels)
def test_a_higher_score_is_never_more_probably_wrong(told: list[tuple[int, bool]]) -> None:
    wrong = wrong_probability(told)
    assert np.all(np.diff(wrong) <= 1e-12)
    assert np.all((wrong >= 0) & (wrong <= 1))


@pytest.mark.parametrize(("score", "expected"), [(0.0, 0), (0.5, 64), (1.0, 127), (-1.0, 0), (2.0, 127)])
def test_scores_are_kept_in_128_steps(score: float, expected: int) -> None:
    assert step(score) == expected
