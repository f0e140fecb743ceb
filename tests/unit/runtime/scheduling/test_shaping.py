"""Fixed and adaptive batching."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferry_runtime.scheduling.shape import BatchShape
from ferry_runtime.scheduling.shaping import AdaptiveShaping, FixedShaping

DECLARED = BatchShape(slots=8, batch=8, max_wait=0.2)


def fed(shaping, *, rate=0.0, base=0.02, row=0.002, seconds=30.0):
    """After ``seconds`` of arrivals at an even rate and of steps of all sizes."""
    for number in range(round(seconds * rate)):
        shaping.arrived(number / rate)
    for number in range(200):
        rows = 1 + number % 8
        shaping.stepped(rows, base + row * rows)
    return shaping


events = st.lists(
    st.one_of(
        st.tuples(st.just("arrived"), st.floats(0, 100)),
        st.tuples(st.just("stepped"), st.floats(0, 10)),
        st.tuples(st.just("first_token"), st.floats(0, 100)),
    ),
    max_size=60,
)


@given(events, st.floats(0.01, 10) | st.none(), st.floats(0, 100))
def test_adaptive_never_exceeds_what_is_declared(happened, target, waited):
    shaping, now = AdaptiveShaping(DECLARED, target), 0.0
    for number, (event, value) in enumerate(happened):
        if event == "arrived":
            now = max(now, value)
            shaping.arrived(now)
        elif event == "stepped":
            shaping.stepped(1 + number % 8, value)
        else:
            shaping.first_token(value)
    shape = shaping.shape(now, waited)
    assert shape.slots == DECLARED.slots
    assert 1 <= shape.batch <= DECLARED.batch
    assert 0 <= shape.max_wait <= DECLARED.max_wait


@given(events, st.floats(0, 100))
def test_fixed_is_exactly_what_is_declared_whatever_happens(happened, waited):
    shaping = FixedShaping(DECLARED)
    for event, value in happened:
        if event == "stepped":
            shaping.stepped(3, value)
        else:
            getattr(shaping, event)(value)
    assert shaping.shape(5.0, waited) == DECLARED


def test_a_lone_user_does_not_wait_for_company_that_will_not_come():
    assert fed(AdaptiveShaping(DECLARED, 1.0), rate=1.0).shape(30.0, 0.0).max_wait == 0.0


def test_a_crowd_shares_a_window_no_longer_than_a_batch_takes_to_gather():
    some = fed(AdaptiveShaping(DECLARED, 10.0), rate=10.0).shape(30.0, 0.0).max_wait
    many = fed(AdaptiveShaping(DECLARED, 10.0), rate=100.0).shape(30.0, 0.0).max_wait
    assert some == DECLARED.max_wait
    assert many == pytest.approx(7 / 100, rel=0.1)


def test_the_window_leaves_the_target_time_for_the_first_token():
    shaping = fed(AdaptiveShaping(DECLARED, 0.3), rate=10.0)
    for _ in range(100):
        shaping.first_token(0.2)
    assert shaping.shape(30.0, 0.0).max_wait == pytest.approx(0.05, rel=0.05)


def test_the_window_closes_again_when_the_crowd_has_gone():
    shaping = fed(AdaptiveShaping(DECLARED, 10.0), rate=100.0)
    assert shaping.shape(30.0, 0.0).max_wait > 0
    assert shaping.shape(60.0, 0.0).max_wait == 0.0


@pytest.mark.parametrize(("base", "row", "limit"), [(0.1, 0.0001, 8), (0.001, 0.02, 1), (0.01, 0.02, 5)])
def test_the_limit_is_where_more_rows_stop_paying(base, row, limit):
    shaping = fed(AdaptiveShaping(DECLARED, 10.0), base=base, row=row)
    assert shaping.shape(30.0, 0.0).batch == limit
    throughput = [rows / (base + row * rows) for rows in range(1, 9)]
    assert throughput[limit - 1] >= 0.95 * throughput[-1]
    assert limit == 1 or throughput[limit - 2] < 0.95 * throughput[-1]


def test_a_queue_that_would_miss_the_target_gets_the_whole_batch():
    shaping = fed(AdaptiveShaping(DECLARED, 1.0), base=0.01, row=0.02)
    assert shaping.shape(30.0, 0.1).batch < DECLARED.batch
    assert shaping.shape(30.0, 0.6).batch == DECLARED.batch


def test_before_anything_is_measured_the_whole_batch_is_used():
    assert AdaptiveShaping(DECLARED, 1.0).shape(0.0, 0.0).batch == DECLARED.batch


def ramp(simulate, job_of, shaping):
    """1 to 50 users, one more every second; each sends its next request a second after an answer."""
    count = 0

    def send(arrival):
        nonlocal count
        count += 1
        return job_of(count, arrival, prompt_tokens=40, expected_tokens=16.0)

    def again(_, now):
        return send(now + 1.0) if now < 90.0 else None

    users = [send(float(number)) for number in range(50)]
    return simulate(slots=8, shaping=shaping, row_seconds=0.002).run(users, again)


def median_first_token(played, start, end):
    times = [
        played.first_token[job.id] - job.arrival
        for job in played.admitted.values()
        if start <= job.arrival < end
    ]
    return sorted(times)[len(times) // 2]


def test_on_a_ramp_of_users_adaptive_helps_the_few_and_costs_the_many_nothing(simulate, job_of):
    fixed = ramp(simulate, job_of, FixedShaping(DECLARED))
    adaptive = ramp(simulate, job_of, AdaptiveShaping(DECLARED, 1.0))
    assert median_first_token(adaptive, 0, 5) <= 0.6 * median_first_token(fixed, 0, 5)
    assert median_first_token(adaptive, 50, 90) <= 1.1 * median_first_token(fixed, 50, 90)
    assert len(adaptive.ended) >= 0.97 * len(fixed.ended)
