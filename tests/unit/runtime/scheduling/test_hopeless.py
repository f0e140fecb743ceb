"""What could not start before its time runs out is refused at once, when that is certain enough."""

from __future__ import annotations

import pytest

from ferry_runtime.scheduling.admission import RejectReason


@pytest.fixture
def busy(simulate, job_of):
    """A server that has been saturated for a minute, at 20 tokens per second; all its slots taken."""

    def build(seconds=60):
        core = simulate(slots=1, timeout=60.0).core
        core.admit(job_of(1000), 0.0)
        core.admit(job_of(1001), 0.0)
        core.release(0.0)
        for second in range(seconds):
            core.progress("job-1000", 0, 20)
            core.release(float(second + 1))
        return core, float(seconds)

    return build


def refusals(core, jobs, now):
    found = [core.admit(job, now) for job in jobs]
    return [refusal and refusal.reason for refusal in found]


def job_costing(job_of, number, now, cost, timeout=10.0, **fields):
    return job_of(
        number, now, prompt_tokens=cost, expected_tokens=0.0, queue_deadline=now + timeout, **fields
    )


def test_the_queue_is_as_long_as_can_be_served_in_time(busy, job_of):
    core, now = busy()
    jobs = [job_costing(job_of, number, now, 40, timeout=11.0) for number in range(10)]
    # Two seconds of work each, and at most 11 / 1.25 = 8.8 seconds of it may be ahead.
    assert refusals(core, jobs, now) == [None] * 5 + [RejectReason.WAIT] * 5


def test_only_the_work_ahead_counts(busy, job_of):
    core, now = busy()
    core.admit(job_costing(job_of, 0, now, 2000, timeout=1e6, priority=5), now)
    assert refusals(core, [job_costing(job_of, 1, now, 40)], now) == [None]
    core.admit(job_costing(job_of, 2, now, 2000, timeout=1e6, priority=-5), now)
    assert refusals(core, [job_costing(job_of, 3, now, 40)], now) == [RejectReason.WAIT]


def test_nothing_is_refused_for_a_speed_that_was_hardly_measured(busy, job_of):
    core, now = busy(seconds=10)
    jobs = [job_costing(job_of, number, now, 4000) for number in range(10)]
    assert refusals(core, jobs, now) == [None] * 10


def test_whoever_can_start_at_once_is_never_refused(busy, job_of):
    core, now = busy()
    for number in (1000, 1001):
        core.finished(f"job-{number}", 0, now)
    assert refusals(core, [job_costing(job_of, 1, now, 4000, timeout=0.01)], now) == [None]
