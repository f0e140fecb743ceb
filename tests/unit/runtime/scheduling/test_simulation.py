"""Properties of the whole scheduler, over random workloads in virtual time."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferry_runtime.scheduling.queue import first_come_first_served
from ferry_runtime.scheduling.score import ageing_seconds, overtaking_bound

# The fixtures build a fresh simulation per call, so sharing them between examples is harmless.
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def workloads(draw):
    """(arrival, priority, choices, prompt tokens, answer tokens) per request."""
    return draw(
        st.lists(
            st.tuples(
                st.floats(0, 20),
                st.integers(-3, 3),
                st.integers(1, 6),
                st.integers(1, 3000),
                st.integers(1, 60),
            ),
            min_size=1,
            max_size=50,
        )
    )


def jobs_from(job_of, workload, **fields):
    return [
        job_of(
            number,
            arrival,
            priority=priority,
            sequences=choices,
            prompt_tokens=prompt,
            expected_tokens=float(answer),
            **fields,
        )
        for number, (arrival, priority, choices, prompt, answer) in enumerate(workload)
    ]


@quick
@given(workload=workloads(), slots=st.integers(1, 8), timeout=st.floats(1, 60))
def test_no_request_is_passed_by_one_that_arrives_later_than_the_stated_bound(
    simulate, job_of, workload, slots, timeout
):
    jobs = jobs_from(job_of, workload)
    played = simulate(slots=slots, timeout=timeout).run(jobs)
    place = {job_id: number for number, (job_id, _) in reversed(list(enumerate(played.order)))}
    ageing = ageing_seconds(timeout)
    for job in jobs:
        bound = overtaking_bound(job.priority, ageing)
        for later in jobs:
            if later.arrival > job.arrival + bound:
                assert place[job.id] < place[later.id]


@quick
@given(workload=workloads(), slots=st.integers(1, 8))
def test_no_slot_stays_empty_while_a_request_waits(simulate, job_of, workload, slots):
    simulation = simulate(slots=slots)
    step = simulation.step

    def checked():
        core = simulation.core
        assert core.waiting == 0 or core.submitted >= slots
        step()

    simulation.step = checked
    simulation.run(jobs_from(job_of, workload))
    assert simulation.most_rows <= slots


@quick
@given(workload=workloads(), slots=st.integers(1, 8), timeout=st.floats(0.5, 20))
def test_every_request_ends_in_exactly_one_way_and_nothing_is_left_behind(
    simulate, job_of, workload, slots, timeout
):
    jobs = [
        job_of(
            number,
            arrival,
            priority=priority,
            sequences=choices,
            prompt_tokens=prompt,
            expected_tokens=float(answer),
            queue_deadline=arrival + timeout,
            deadline=arrival + 2 * timeout,
        )
        for number, (arrival, priority, choices, prompt, answer) in enumerate(workload)
    ]
    played = simulate(slots=slots, timeout=timeout, max_requests=8, max_tokens=20_000).run(jobs)
    finished = {job_id for job_id in played.ended if job_id not in played.expired}
    assert finished | set(played.expired) | set(played.refused) == {job.id for job in jobs}
    assert not finished & set(played.refused)
    core = played.core
    assert (core.open, core.submitted, core.waiting, core.waiting_tokens) == (0, 0, 0, 0)


@quick
@given(workload=workloads())
def test_of_requests_that_arrive_together_the_most_urgent_start_first(simulate, job_of, workload):
    jobs = jobs_from(job_of, [(0.0, *rest) for _, *rest in workload])
    played = simulate(slots=2).run(jobs)
    priority = {job.id: job.priority for job in jobs}
    started = [priority[job_id] for job_id, _ in played.order]
    assert started == sorted(started)


@quick
@given(workload=workloads(), slots=st.integers(1, 4))
def test_an_expired_queued_request_never_reaches_the_engine(simulate, job_of, workload, slots):
    jobs = [
        job_of(number, arrival, sequences=1, expected_tokens=float(answer), queue_deadline=arrival + 0.5)
        for number, (arrival, _, _, _, answer) in enumerate(workload)
    ]
    played = simulate(slots=slots).run(jobs)
    for job in jobs:
        if job.id in played.started:
            assert played.started[job.id] < job.queue_deadline
            assert job.id not in played.expired


def mixed(job_of, seconds=120.0, rate=3.9):
    """Nine short requests to one long, a fifth more of them than the simulated engine can do."""
    chance, arrival, jobs, lengths = random.Random(5), 0.0, [], {}
    while (arrival := arrival + chance.expovariate(rate)) < seconds:
        long = chance.random() < 0.1
        number = 10_000 * long + len(jobs)
        prompt, answer = (1500, 175.0) if long else (40, 16.0)
        jobs.append(job_of(number, arrival, prompt_tokens=prompt, expected_tokens=answer))
        lengths[jobs[-1].id] = chance.randint(150, 200) if long else chance.randint(8, 24)
    return jobs, lengths


def p95(values):
    return sorted(values)[int(0.95 * (len(values) - 1))]


@pytest.fixture
def overload(simulate, job_of):
    def play(policy=None):
        jobs, lengths = mixed(job_of)
        options = {} if policy is None else {"policy": policy}
        played = simulate(slots=8, max_wait=0.05, actual=lengths, **options).run(jobs)
        short = [played.ended[job.id] - job.arrival for job in jobs if job.prompt_tokens < 1000]
        return played, p95(short)

    return play


def test_under_overload_short_requests_wait_half_as_long_as_first_come_first_served(overload):
    scored, short = overload()
    plain, plain_short = overload(first_come_first_served)
    assert short <= 0.5 * plain_short
    assert len(scored.ended) == len(plain.ended)  # and no long one is lost for it
    assert scored.now <= 1.05 * plain.now


def test_a_slot_is_refilled_at_the_very_next_step(simulate, job_of):
    played = simulate(slots=2).run([job_of(number, expected_tokens=5.0) for number in range(8)])
    # 8 answers of 5 tokens and a prompt step each, 2 at a time: 24 steps and not one more.
    assert len(played.ended) == 8
    assert played.now == pytest.approx(24 * 0.05 + 8 * 0.0005)
