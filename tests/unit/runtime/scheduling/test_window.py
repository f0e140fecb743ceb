"""The batch window: how long an idle engine waits for company."""

from __future__ import annotations

import pytest


@pytest.fixture
def core(simulate):
    return simulate(slots=4, max_wait=0.05).core


def test_the_window_runs_once_from_the_first_waiting_request(core, job_of):
    for number in range(3):  # each one would push a restarting window further
        core.admit(job_of(number, 0.02 * number), 0.02 * number)
        assert core.release(0.02 * number) == []
    assert core.next_event() == pytest.approx(0.05)
    assert core.release(0.0499) == []
    assert len(core.release(0.0501)) == 3


def test_a_full_batch_does_not_wait(core, job_of):
    for number in range(3):
        core.admit(job_of(number), 0.0)
        assert core.release(0.0) == []
    core.admit(job_of(3), 0.001)
    assert len(core.release(0.001)) == 4


def test_choices_fill_a_batch_like_requests(core, job_of):
    core.admit(job_of(0, sequences=4), 0.0)
    assert len(core.release(0.0)) == 4


def test_a_running_engine_is_joined_at_once(core, job_of):
    core.admit(job_of(0), 0.0)
    core.release(0.05)
    core.admit(job_of(1), 0.06)
    assert [start.job.id for start in core.release(0.06)] == ["job-1"]


def test_the_window_opens_anew_when_the_engine_falls_idle(core, job_of):
    core.admit(job_of(0), 0.0)
    core.release(0.05)
    core.finished("job-0", 0, 1.0)
    core.admit(job_of(1), 2.0)
    assert core.release(2.04) == []
    assert len(core.release(2.05)) == 1


def test_when_the_first_leaves_the_window_is_the_seconds(core, job_of):
    core.admit(job_of(0), 0.0)
    core.admit(job_of(1), 0.03)
    core.cancel("job-0", 0.04)
    assert core.release(0.05) == []
    assert core.next_event() == pytest.approx(0.08)
    assert len(core.release(0.08)) == 1


def test_within_the_window_the_best_score_leads_not_the_first_to_come(core, job_of):
    core.admit(job_of(0, 0.0, priority=1), 0.0)
    core.admit(job_of(1, 0.03), 0.03)
    assert [start.job.id for start in core.release(0.05)] == ["job-1", "job-0"]


def test_the_engine_never_holds_more_than_its_slots_and_a_small_lookahead(core, job_of):
    for number in range(20):
        core.admit(job_of(number), 0.0)
    assert len(core.release(0.0)) == 4 + core.shape.lookahead
    assert core.shape.lookahead <= 2
    assert core.release(0.1) == []
    core.finished("job-0", 0, 0.2)
    assert len(core.release(0.2)) == 1
