"""Under pressure for KV memory the worst-ranked running requests make place, when it pays."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferry_runtime.scheduling.job import Pause, Resume, Start
from ferry_runtime.scheduling.shape import KvMemory

TEN_BLOCKS = KvMemory(blocks=10, block_tokens=16)


def said(actions):
    return [
        f"{type(action).__name__} {action.job.id if isinstance(action, Start) else action.job_id}"
        for action in actions
    ]


@pytest.fixture
def core(simulate):
    return simulate(slots=4, kv=TEN_BLOCKS, can_pause=True).core


def test_an_urgent_request_takes_the_place_of_a_patient_one_which_goes_on_afterwards(core, job_of):
    core.admit(job_of(0, priority=1, capacity_tokens=160), 0.0)
    core.release(0.0)
    core.admit(job_of(1, 1.0, priority=-1, capacity_tokens=160), 1.0)
    assert said(core.release(1.0)) == ["Pause job-0", "Start job-1"]
    core.finished("job-1", 0, 2.0)
    assert said(core.release(2.0)) == ["Resume job-0"]
    core.finished("job-0", 0, 3.0)
    assert (core.open, core.submitted) == (0, 0)


def test_only_as_many_as_needed_are_paused_the_worst_first(core, job_of):
    for number, priority in enumerate([1, 3, 2]):
        core.admit(job_of(number, priority=priority, capacity_tokens=48), 0.0)
    core.release(0.0)
    core.admit(job_of(9, 1.0, capacity_tokens=96), 1.0)
    assert said(core.release(1.0)) == ["Pause job-1", "Pause job-2", "Start job-9"]
    core.finished("job-9", 0, 2.0)
    assert said(core.release(2.0)) == ["Resume job-2", "Resume job-1"]


def test_nobody_is_paused_when_that_would_not_make_enough_place(core, job_of):
    core.admit(job_of(0, priority=-2, capacity_tokens=80), 0.0)
    core.admit(job_of(1, priority=2, capacity_tokens=80), 0.0)
    core.release(0.0)
    core.admit(job_of(9, 1.0, capacity_tokens=160), 1.0)
    assert core.release(1.0) == []


def test_nobody_is_paused_for_an_equal_that_merely_came_later(core, job_of):
    core.admit(job_of(0, capacity_tokens=160), 0.0)
    core.release(0.0)
    core.admit(job_of(1, 1.0, capacity_tokens=160), 1.0)
    assert core.release(1.0) == []


def test_work_worth_more_than_the_lead_is_not_thrown_away(core, job_of):
    core.admit(job_of(0, 0.0, priority=1, capacity_tokens=160), 0.0)
    core.release(0.0)
    core.progress("job-0", 0, 100_000)  # a thousand seconds of work at the assumed speed
    core.admit(job_of(1, 1.0, capacity_tokens=160), 1.0)
    assert core.release(1.0) == []


def test_a_backend_that_cannot_pause_is_never_asked_to(simulate, job_of):
    core = simulate(slots=4, kv=TEN_BLOCKS).core
    core.admit(job_of(0, priority=9, capacity_tokens=160), 0.0)
    core.release(0.0)
    core.admit(job_of(1, 1.0, priority=-9, capacity_tokens=160), 1.0)
    assert core.release(1.0) == []


def test_a_paused_request_can_be_cancelled_and_leaves_nothing_behind(core, job_of):
    core.admit(job_of(0, priority=1, capacity_tokens=160), 0.0)
    core.release(0.0)
    core.admit(job_of(1, 1.0, capacity_tokens=160), 1.0)
    core.release(1.0)
    assert core.cancel("job-0", 2.0) == (0,)
    core.finished("job-0", 0, 2.0)
    core.finished("job-1", 0, 3.0)
    assert core.release(3.0) == []
    assert (core.open, core.submitted) == (0, 0)


def test_a_paused_request_still_runs_out_of_time(core, job_of):
    core.admit(job_of(0, priority=1, capacity_tokens=160, deadline=5.0), 0.0)
    core.release(0.0)
    core.admit(job_of(1, 1.0, capacity_tokens=160), 1.0)
    core.release(1.0)
    (gone,) = core.expire(5.0)
    assert gone.started
    assert core.cancel("job-0", 5.0) == (0,)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    workload=st.lists(
        st.tuples(
            st.floats(0, 10), st.integers(-3, 3), st.integers(1, 3), st.integers(1, 160), st.integers(1, 40)
        ),
        min_size=1,
        max_size=40,
    )
)
def test_whatever_is_paused_goes_on_and_everything_is_served_within_the_memory(simulate, job_of, workload):
    jobs = [
        job_of(
            number,
            arrival,
            priority=priority,
            sequences=choices,
            capacity_tokens=capacity,
            expected_tokens=float(answer),
        )
        for number, (arrival, priority, choices, capacity, answer) in enumerate(workload)
    ]
    simulation = simulate(slots=4, kv=TEN_BLOCKS, can_pause=True)
    step = simulation.step

    def checked():
        assert sum(TEN_BLOCKS.needed(row.job.capacity_tokens) for row in simulation.in_slots) <= 10
        step()

    simulation.step = checked
    simulation.run(jobs)
    assert set(simulation.ended) == {job.id for job in jobs}
    assert simulation.set_aside == {}
    assert (simulation.core.open, simulation.core.submitted) == (0, 0)


def test_the_random_workloads_do_pause(simulate, job_of):
    jobs = [
        job_of(number, 0.1 * number, priority=3 - number % 4, capacity_tokens=100, expected_tokens=20.0)
        for number in range(20)
    ]
    assert simulate(slots=4, kv=TEN_BLOCKS, can_pause=True).run(jobs).pauses


def test_pause_and_resume_name_the_choice(core, job_of):
    core.admit(job_of(0, priority=1, sequences=2, capacity_tokens=80), 0.0)
    core.release(0.0)
    core.admit(job_of(1, 1.0, capacity_tokens=80), 1.0)
    pause, _ = core.release(1.0)
    assert isinstance(pause, Pause)
    core.finished("job-1", 0, 2.0)
    assert core.release(2.0) == [Resume("job-0", pause.index)]
