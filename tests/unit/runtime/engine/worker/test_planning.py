"""How a step's prompt tokens are shared out."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferry_runtime.engine.model.contract import StepCost
from ferry_runtime.engine.worker.planning import (
    OLDEST_FIRST_EVERY,
    Chunk,
    PrefillBudget,
    Prompt,
    plan_prefill,
)

OLDEST_TURN = OLDEST_FIRST_EVERY - 1


def prompt(sequence: int, length: int, computed: int = 0) -> Prompt:
    return Prompt(sequence, tuple(range(sequence * 10_000, sequence * 10_000 + length)), computed, sequence)


def test_the_shortest_remainder_goes_first() -> None:
    chunks = plan_prefill([prompt(1, 6000), prompt(2, 40), prompt(3, 30)], 100, turn=0)
    assert chunks == [Chunk(3, 30), Chunk(2, 40), Chunk(1, 30)]


def test_every_so_often_the_oldest_goes_first() -> None:
    chunks = plan_prefill([prompt(1, 6000), prompt(2, 40)], 100, turn=OLDEST_TURN)
    assert chunks == [Chunk(1, 100)]


def test_a_remainder_too_small_to_pay_is_left() -> None:
    assert plan_prefill([prompt(1, 95), prompt(2, 600)], 100, turn=0) == [Chunk(1, 95)]


def test_a_prompt_that_shares_a_head_waits_to_adopt_it() -> None:
    first = Prompt(1, tuple(range(50)), 0, 1)
    second = Prompt(2, (*range(40), 99, 98), 0, 2)
    other = prompt(3, 45)
    chunks = plan_prefill([first, second, other], 500, turn=0)
    assert {chunk.sequence for chunk in chunks} == {2, 3}


@pytest.mark.parametrize(
    ("head", "fixed_chunk", "together"), [(31, None, 2), (32, None, 1), (60, 64, 2), (64, 64, 1)]
)
def test_a_head_too_short_to_adopt_is_not_waited_for(
    head: int, fixed_chunk: int | None, together: int
) -> None:
    prompts = [Prompt(number, (*range(head), *[900 + number] * 70), 0, number) for number in (1, 2)]
    assert len(plan_prefill(prompts, 500, turn=0, fixed_chunk=fixed_chunk)) == together


@pytest.mark.parametrize("span", [None, 1000])
@pytest.mark.parametrize("computed", [0, 900, 5000])
def test_late_tokens_weigh_more_so_a_step_takes_fewer(computed: int, span: int | None) -> None:
    cost = dataclasses.replace(COST, attention_share=0.001, attention_span=span)
    [chunk] = plan_prefill([prompt(1, 9000, computed)], 100, turn=0, cost=cost)
    assert cost.weight(computed, chunk.count) <= 100 < cost.weight(computed, chunk.count + 2)
    seen = computed if span is None else min(computed, span)
    assert chunk.count == pytest.approx(100 / (1 + 0.001 * seen), rel=0.06)


def test_what_lies_before_a_late_chunk_is_not_read_beside_short_prompts_when_that_takes_too_long() -> None:
    cost = dataclasses.replace(COST, attention_read=0.01)
    late, short = prompt(1, 9000, 8000), prompt(2, 30)
    assert plan_prefill([late, short], 100, turn=0, cost=cost) == [Chunk(2, 30)]
    assert plan_prefill([late, short], 130, turn=0, cost=cost) == [Chunk(2, 30), Chunk(1, 20)]
    assert plan_prefill([late], 60, turn=0, cost=cost) == [Chunk(1, 8)]


def test_one_that_must_compute_all_itself_does_not_wait() -> None:
    tokens = tuple(range(50))
    alone = Prompt(2, tokens, 0, 2, scored=True)
    assert len(plan_prefill([Prompt(1, tokens, 0, 1), alone], 500, turn=0)) == 2


def test_scored_prompts_share_a_budget_of_their_own() -> None:
    scored = [dataclasses.replace(prompt(number, 300), scored=True) for number in (1, 2)]
    chunks = plan_prefill([*scored, prompt(3, 400)], 1000, turn=0, scored_budget=320)
    assert chunks == [Chunk(1, 300), Chunk(2, 20), Chunk(3, 400)]
    assert plan_prefill(scored, 1000, turn=0, scored_budget=50) == [Chunk(1, 50)]


def test_fixed_chunks_end_at_their_multiples_or_the_prompts_end() -> None:
    prompts = [prompt(1, 100, 64), prompt(2, 100, 96), prompt(3, 300)]
    chunks = plan_prefill(prompts, 1000, turn=0, fixed_chunk=32)
    assert chunks == [Chunk(2, 4), Chunk(1, 32), Chunk(3, 32)]


def test_one_fixed_chunk_goes_even_beyond_the_budget() -> None:
    assert plan_prefill([prompt(1, 100), prompt(2, 200)], 8, turn=0, fixed_chunk=32) == [Chunk(1, 32)]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 299)), min_size=1, max_size=8),
    st.integers(1, 200),
    st.integers(0, 10),
)
def test_a_step_never_exceeds_its_budget_nor_a_prompt(
    sizes: list[tuple[int, int]], budget: int, turn: int
) -> None:
    prompts = {
        number: prompt(number, length, min(computed, length - 1))
        for number, (length, computed) in enumerate(sizes)
    }
    chunks = plan_prefill(list(prompts.values()), budget, turn)
    assert chunks
    assert sum(chunk.count for chunk in chunks) <= budget
    assert all(0 < chunk.count <= prompts[chunk.sequence].remaining for chunk in chunks)
    assert len({chunk.sequence for chunk in chunks}) == len(chunks)


@settings(deadline=None)
@given(st.integers(100, 1000), st.integers(10, 100))
def test_a_long_prompt_is_computed_in_bounded_time_whatever_keeps_coming(length: int, budget: int) -> None:
    """New short prompts arrive at every step, enough to fill it for ever."""
    long, steps = prompt(0, length), 0
    while long.remaining:
        newcomers = [prompt(number, budget) for number in range(1, 4)]
        done = {chunk.sequence: chunk.count for chunk in plan_prefill([long, *newcomers], budget, steps)}
        long = prompt(0, length, long.computed + done.get(0, 0))
        steps += 1
    assert steps <= OLDEST_FIRST_EVERY * (-(-length // budget))


def test_short_prompts_start_while_a_long_one_is_computed() -> None:
    chunks = plan_prefill([prompt(0, 6000, 100), prompt(1, 30), prompt(2, 30)], 64, turn=0)
    assert {Chunk(1, 30), Chunk(2, 30)} <= set(chunks)


COST = StepCost(decode_seconds=0.05, prefill_seconds_per_token=0.001, chunk_tokens=128)


def test_next_to_decode_rows_a_step_may_take_two_and_a_half_times_as_long() -> None:
    assert PrefillBudget(COST).tokens(decode_rows=4) == pytest.approx(75)


def test_alone_a_prompt_gets_large_chunks() -> None:
    assert PrefillBudget(COST).tokens(decode_rows=0) == 500


@pytest.mark.parametrize(("rows", "tokens"), [(1, 47), (4, 44), (8, 40), (16, 48)])
def test_a_steps_tokens_fill_what_the_runner_pads_to(rows: int, tokens: int) -> None:
    cost = dataclasses.replace(COST, row_multiple=16)
    chunks = plan_prefill([prompt(1, 300)], 50, 0, cost=cost, decode_rows=rows)
    assert chunks == [Chunk(1, tokens)]
    assert (rows + tokens) % 16 == 0


@pytest.mark.parametrize("rows", [0, 4])
def test_the_declared_bound_holds_for_all_rows_together(rows: int) -> None:
    assert PrefillBudget(COST, max_batched_tokens=20).tokens(rows) == 20 - rows


def test_the_budget_follows_what_steps_really_take() -> None:
    budget = PrefillBudget(COST)
    for _ in range(50):
        budget.observe(decode_rows=4, weight=0, seconds=0.05)
        budget.observe(decode_rows=4, weight=50, seconds=0.05 + 50 * 0.002)
    assert budget.tokens(decode_rows=4) == pytest.approx(37.5)


def test_a_few_steps_that_were_held_up_change_nothing() -> None:
    budget = PrefillBudget(COST)
    for _ in range(4):
        budget.observe(decode_rows=4, weight=0, seconds=9.0)
        budget.observe(decode_rows=4, weight=50, seconds=9.0)
    assert budget.tokens(decode_rows=4) == pytest.approx(75)


def test_however_slow_it_gets_a_step_makes_progress() -> None:
    budget = PrefillBudget(COST)
    for _ in range(100):
        budget.observe(decode_rows=4, weight=1, seconds=60.0)
    assert budget.tokens(decode_rows=4) == pytest.approx(9.375)  # an eighth of what was measured at load
