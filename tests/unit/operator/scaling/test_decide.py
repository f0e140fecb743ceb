"""How many replicas a load needs, and when it is followed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferry_operator.scaling.decide import Bounds, History, Load, needed, wanted

BOUNDS = Bounds(least=1, most=10, waiting=4, slots=8, delay=300.0)


@pytest.mark.parametrize(
    ("loads", "replicas"),
    [
        ([], 0),
        ([Load(0, 0)], 0),
        ([Load(0, 1)], 1),
        ([Load(4, 8)], 1),
        ([Load(5, 8)], 2),
        ([Load(40, 8)], 4),
        ([Load(0, 8), Load(0, 8), Load(0, 1)], 2),
    ],
)
def test_the_need_is_what_runs_the_load_with_the_target_waiting(loads, replicas):
    assert needed(loads, BOUNDS) == replicas


@pytest.mark.parametrize(
    ("current", "need", "highest", "replicas"),
    [
        pytest.param(1, 3, None, 3, id="more at once"),
        pytest.param(1, 30, None, 10, id="never over the most"),
        pytest.param(3, 1, None, 3, id="fewer not before the delay has been watched"),
        pytest.param(3, 1, 2, 2, id="fewer as the highest need of the delay allows"),
        pytest.param(3, 1, 5, 3, id="not more because of an old need"),
        pytest.param(3, 0, 0, 1, id="never under the least"),
        pytest.param(12, 3, None, 10, id="a count over the most is brought down at once"),
        pytest.param(0, 3, None, 0, id="zero was somebody's wish"),
    ],
)
def test_the_count_follows_upwards_at_once_and_downwards_late(current, need, highest, replicas):
    assert wanted(current, need, BOUNDS, highest) == replicas


def test_a_history_tells_nothing_before_it_has_been_watched_for_the_whole_delay():
    history = History(begun=100.0)
    history.note(100.0, 1)
    assert history.highest(399.0, 300.0) is None
    assert history.highest(400.0, 300.0) == 1


@given(
    needs=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=40),
    delay=st.integers(1, 200),
)
def test_the_highest_need_of_the_delay_is_kept_and_older_ones_are_not(needs, delay):
    now, seen, history = 0.0, [], History(begun=-1e9)
    for step, need in needs:
        now += step
        history.note(now, need)
        seen.append((now, need))
        assert history.highest(now, delay) == max(n for at, n in seen if at >= now - delay)
