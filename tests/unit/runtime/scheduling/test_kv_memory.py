"""What fits into the engine's keys and values, and who waits for it."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferry_runtime.scheduling.admission import RejectReason
from ferry_runtime.scheduling.score import ageing_seconds
from ferry_runtime.scheduling.shape import KvMemory

TEN_BLOCKS = KvMemory(blocks=10, block_tokens=16)


def ids(starts):
    return [start.job.id for start in starts]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.tuples(st.integers(1, 160), st.integers(1, 4)), min_size=1, max_size=40))
def test_blocks_in_the_engine_never_exceed_what_it_has_and_all_are_served(simulate, job_of, sizes):
    jobs = [
        job_of(number, 0.01 * number, capacity_tokens=size, sequences=choices)
        for number, (size, choices) in enumerate(sizes)
    ]
    simulation = simulate(slots=8, kv=TEN_BLOCKS)
    step = simulation.step

    def checked():
        assert sum(TEN_BLOCKS.needed(row.job.capacity_tokens) for row in simulation.in_slots) <= 10
        step()

    simulation.step = checked
    simulation.run(jobs)
    assert set(simulation.ended) == {job.id for job in jobs}


def test_a_request_that_could_never_fit_is_refused_at_once(simulate, job_of):
    core = simulate(kv=TEN_BLOCKS).core
    assert core.admit(job_of(0, capacity_tokens=160), 0.0) is None
    refusal = core.admit(job_of(1, capacity_tokens=161), 0.0)
    assert refusal is not None
    assert refusal.reason is RejectReason.KV_MEMORY


def test_small_requests_pass_one_that_waits_for_memory(simulate, job_of):
    core = simulate(slots=4, kv=TEN_BLOCKS).core
    for number, size in enumerate([100, 100, 32]):
        core.admit(job_of(number, capacity_tokens=size), 0.0)
    assert ids(core.release(0.0)) == ["job-0", "job-2"]


def test_memory_is_kept_for_one_that_was_passed_for_long(simulate, job_of):
    core = simulate(slots=4, kv=TEN_BLOCKS, timeout=60.0).core
    for number in range(2):
        core.admit(job_of(number, capacity_tokens=100), 0.0)
    core.release(0.0)
    late = ageing_seconds(60.0) + 1
    core.admit(job_of(2, late, capacity_tokens=16), late)
    assert core.release(late) == []
    core.finished("job-0", 0, late + 1)
    assert ids(core.release(late + 1)) == ["job-1", "job-2"]


def test_when_memory_and_slots_are_both_taken_the_next_is_handed_over_all_the_same(simulate, job_of):
    core = simulate(slots=2, kv=TEN_BLOCKS).core
    for number in range(4):
        core.admit(job_of(number, capacity_tokens=80), 0.0)
    assert ids(core.release(0.0)) == ["job-0", "job-1", "job-2"]  # fits as soon as either ends


def test_one_that_could_still_not_start_when_a_slot_falls_free_is_not_handed_over(simulate, job_of):
    core = simulate(slots=2, kv=TEN_BLOCKS).core
    for number, size in enumerate([32, 128, 160, 16]):
        core.admit(job_of(number, capacity_tokens=size), 0.0)
    assert ids(core.release(0.0)) == ["job-0", "job-1", "job-3"]
