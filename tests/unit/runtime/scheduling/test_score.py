from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferry_runtime.scheduling.score import (
    Load,
    ageing_seconds,
    handicap,
    level,
    overtaking_bound,
    score,
)

priorities = st.integers(-20, 20)
costs = st.floats(1, 1e6)
pressures = st.floats(0, 1e3)
ageings = st.floats(1, 1e4)


@given(st.integers(-(10**9), 10**9))
def test_every_integer_is_a_priority(priority):
    assert -1 <= level(priority) <= 1


@given(one=priorities, other=priorities, cost=costs, other_cost=costs, pressure=pressures, ageing=ageings)
def test_priority_decides_at_equal_age_whatever_the_costs(*, one, other, cost, other_cost, pressure, ageing):
    if one != other:
        urgent, patient = min(one, other), max(one, other)
        assert handicap(urgent, cost, pressure, ageing) < handicap(patient, other_cost, pressure, ageing)


@given(priorities, costs, st.floats(1.01, 100), st.floats(1e-6, 1e3), ageings)
def test_a_longer_request_of_equal_priority_and_age_never_goes_first(
    priority, cost, factor, pressure, ageing
):
    assert handicap(priority, cost, pressure, ageing) <= handicap(priority, cost * factor, pressure, ageing)


def test_short_goes_before_long_when_others_wait():
    load = Load(waiting=10, tokens_per_second=100)
    assert handicap(0, 20, load.pressure, 40) < handicap(0, 200, load.pressure, 40)


@given(priorities, costs, costs, ageings)
def test_with_nobody_waiting_cost_plays_no_part(priority, cost, other_cost, ageing):
    idle = Load(waiting=0, tokens_per_second=100).pressure
    assert handicap(priority, cost, idle, ageing) == handicap(priority, other_cost, idle, ageing)


@given(priorities, costs, st.floats(0, 100), pressures, ageings)
def test_waiting_improves_the_score_second_for_second(priority, cost, waited, pressure, ageing):
    before = score(priority, cost, waited, pressure, ageing)
    assert before - score(priority, cost, waited + 7, pressure, ageing) == pytest.approx(7)


@given(one=priorities, other=priorities, cost=costs, other_cost=costs, pressure=pressures, ageing=ageings)
def test_nobody_is_passed_by_one_that_arrives_after_the_bound(
    *, one, other, cost, other_cost, pressure, ageing
):
    lead = handicap(one, cost, pressure, ageing) - handicap(other, other_cost, pressure, ageing)
    assert lead <= overtaking_bound(one, ageing) + 1e-9
    assert lead <= overtaking_bound(one, ageing, other) + 1e-9


@pytest.mark.parametrize("priority", [-3, -1, 0])
def test_within_its_queue_timeout_a_default_or_urgent_request_precedes_all_newcomers(priority):
    assert overtaking_bound(priority, ageing_seconds(60.0)) <= 60.0
