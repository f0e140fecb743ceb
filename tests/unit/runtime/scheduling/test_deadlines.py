from __future__ import annotations

import pytest


@pytest.fixture
def core(simulate):
    return simulate(slots=1).core


def start(core, job, now=0.0):
    assert core.admit(job, now) is None
    return core.release(now)


def test_a_queued_request_expires_at_its_queue_deadline_and_is_forgotten(core, job_of):
    start(core, job_of(0))
    start(core, job_of(1))  # the lookahead
    core.admit(job_of(2, queue_deadline=2.0), 0.0)
    assert core.next_event() == 2.0
    assert core.expire(1.999) == []
    (gone,) = core.expire(2.0)
    assert (gone.job.id, gone.started) == ("job-2", False)
    assert core.expire(3.0) == []
    core.finished("job-0", 0, 3.0)
    core.finished("job-1", 0, 3.0)
    assert core.release(3.0) == []
    assert core.open == 0


def test_once_started_only_the_requests_own_timeout_counts(core, job_of):
    start(core, job_of(0, queue_deadline=1.0, deadline=5.0))
    assert core.expire(4.999) == []
    (gone,) = core.expire(5.0)
    assert gone.started
    assert core.cancel("job-0", 5.0) == (0,)
    assert core.expire(6.0) == []  # not reported again while the engine lets go of it
    core.finished("job-0", 0, 6.0)
    assert core.open == 0


def test_without_a_timeout_a_running_request_never_expires(core, job_of):
    start(core, job_of(0, queue_deadline=1.0))
    assert core.expire(1e6) == []


def test_a_finished_request_does_not_expire(core, job_of):
    start(core, job_of(0, queue_deadline=1.0, deadline=5.0))
    core.finished("job-0", 0, 2.0)
    assert core.expire(5.0) == []


def test_deadlines_of_ended_requests_do_not_pile_up(core, job_of):
    for number in range(5000):
        start(core, job_of(number, queue_deadline=1e9), 0.001 * number)
        core.finished(f"job-{number}", 0, 0.001 * number)
    assert len(core._deadlines) < 200
