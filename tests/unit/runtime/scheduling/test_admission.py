from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferry_runtime.scheduling.admission import RejectReason


def burst(simulation, jobs):
    for job in jobs:
        simulation.admit(job)
    return simulation


@pytest.mark.parametrize(("slots", "limit"), [(1, 4), (4, 4), (8, 1), (8, 256)])
def test_a_burst_is_taken_up_to_the_slots_and_the_queue_exactly(simulate, job_of, slots, limit):
    simulation = burst(
        simulate(slots=slots, max_wait=0.05, max_requests=limit), [job_of(number) for number in range(60)]
    )
    assert len(simulation.admitted) == min(60, slots + limit)
    assert set(simulation.refused.values()) <= {RejectReason.QUEUE_REQUESTS}


def test_the_limit_is_as_exact_while_the_engine_runs(simulate, job_of):
    simulation = burst(simulate(slots=2, max_requests=4), [job_of(number) for number in range(2)])
    simulation.core.release(0.0)
    burst(simulation, [job_of(number, 0.001) for number in range(2, 60)])
    assert len(simulation.admitted) == 2 + 4
    simulation.core.release(0.001)  # one of them moves ahead into the engine's own queue
    burst(simulation, [job_of(60, 0.002)])
    assert len(simulation.admitted) == 2 + 4


def test_place_falls_free_for_exactly_as_many_as_leave(simulate, job_of):
    simulation = burst(simulate(slots=1, max_requests=3), [job_of(number) for number in range(4)])
    simulation.core.cancel("job-1", 0.0)
    simulation.core.cancel("job-3", 0.0)
    burst(simulation, [job_of(number) for number in range(10, 15)])
    assert set(simulation.admitted) == {"job-0", "job-1", "job-2", "job-3", "job-10", "job-11"}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(costs=st.lists(st.integers(1, 300), min_size=1, max_size=60), limit=st.integers(1, 2000))
def test_queued_tokens_never_exceed_their_limit(simulate, job_of, costs, limit):
    simulation = simulate(slots=1, max_tokens=limit)
    first = job_of(1000, prompt_tokens=5, expected_tokens=0.0)
    burst(simulation, [first])
    simulation.core.release(0.0)
    for number, cost in enumerate(costs):
        simulation.admit(job_of(number, prompt_tokens=cost, expected_tokens=0.0))
        waiting = sum(min(job.cost, limit) for job in simulation.admitted.values() if job.id != first.id)
        assert waiting <= limit


def test_a_request_larger_than_the_whole_token_limit_waits_alone(simulate, job_of):
    simulation = burst(simulate(slots=1, max_tokens=100), [job_of(0)])
    simulation.core.release(0.0)
    burst(simulation, [job_of(1, prompt_tokens=5000), job_of(2, prompt_tokens=1, expected_tokens=1.0)])
    assert set(simulation.admitted) == {"job-0", "job-1"}
    assert simulation.refused == {"job-2": RejectReason.QUEUE_TOKENS}


def test_choices_of_one_request_count_as_one_and_are_taken_together(simulate, job_of):
    simulation = burst(
        simulate(slots=2, max_requests=2), [job_of(number, sequences=5) for number in range(6)]
    )
    assert len(simulation.admitted) == 3  # one starts, two wait


def test_a_full_queue_is_the_servers_fault_when_nobody_else_waits(simulate, job_of):
    core = burst(simulate(slots=1, max_requests=2), [job_of(n, tenant="a") for n in range(3)]).core
    refusal = core.admit(job_of(9, tenant="a"), 0.0)
    assert refusal is not None
    assert not refusal.per_tenant


def test_whoever_holds_more_than_its_share_of_a_full_queue_is_told_so(simulate, job_of):
    simulation = simulate(slots=1, max_requests=4)
    burst(simulation, [job_of(n, tenant="greedy") for n in range(4)] + [job_of(4, tenant="modest")])
    greedy = simulation.core.admit(job_of(5, tenant="greedy"), 0.0)
    modest = simulation.core.admit(job_of(6, tenant="modest"), 0.0)
    assert greedy is not None
    assert modest is not None
    assert (greedy.per_tenant, modest.per_tenant) == (True, False)


def test_one_of_several_tenants_cannot_fill_the_queue_alone(simulate, job_of):
    simulation = simulate(slots=1, max_requests=8)
    burst(simulation, [job_of(0, tenant="b")])
    burst(simulation, [job_of(n, tenant="a") for n in range(1, 20)])
    assert sum(job.tenant == "a" for job in simulation.admitted.values()) == 6  # three quarters of 8
    assert set(simulation.refused.values()) == {RejectReason.TENANT}
    burst(simulation, [job_of(99, tenant="b")])
    assert "job-99" in simulation.admitted


def test_refused_clients_are_called_back_at_the_measured_drain_rate(simulate, job_of):
    jobs = [job_of(number, arrival=0.1 * number, expected_tokens=10.0) for number in range(200)]
    simulation = simulate(slots=2)
    simulation.run(jobs)
    per_second = len(jobs) / simulation.now
    waits = [simulation.core.retry_after(simulation.now) for _ in range(20)]
    assert waits == sorted(waits)
    assert waits[0] >= 1.0
    assert waits[-1] == pytest.approx(20 / per_second, rel=0.3)


def test_nobody_is_sent_away_for_longer_than_the_queue_lets_wait(simulate):
    core = simulate(timeout=30.0).core
    assert max(core.retry_after(0.0) for _ in range(1000)) == 30.0
