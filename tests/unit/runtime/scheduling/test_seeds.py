from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferry_runtime.engine.protocol import SamplingParams
from ferry_runtime.scheduling.seeds import sampling_of


def seed_of(seed, index):
    return sampling_of(SamplingParams(max_tokens=1, seed=seed), index).seed


@given(st.integers(-(2**63), 2**63 - 1))
def test_the_first_choice_has_the_requests_own_seed(seed):
    assert seed_of(seed, 0) == seed


@given(st.integers(-(2**31), 2**31), st.integers(-(2**31), 2**31))
def test_choices_of_different_seeds_share_none(one, other):
    if one != other:
        assert not {seed_of(one, index) for index in range(8)} & {seed_of(other, index) for index in range(8)}


@given(st.integers(), st.integers(1, 127))
def test_derived_seeds_fit_into_63_bits_and_are_always_the_same(seed, index):
    assert 0 <= seed_of(seed, index) < 2**63
    assert seed_of(seed, index) == seed_of(seed, index)


def test_without_a_seed_every_choice_stays_unseeded():
    assert [seed_of(None, index) for index in range(3)] == [None] * 3
