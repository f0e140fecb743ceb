"""The engine's promises, with a runner whose logits depend on exactly what was computed."""

import random

import pytest

from ferry_runtime.engine.model.contract import Row
from ferry_runtime.engine.protocol import FinishReason

from .bench import REQUESTS, MakeBench, alone, alone_tokens


@pytest.mark.parametrize("numerics", ["Fast", "Deterministic"])
@pytest.mark.parametrize("order", range(5))
def test_tokens_are_the_same_alone_and_in_any_company(bench: MakeBench, order: int, numerics: str) -> None:
    together = bench(slots=3, numerics=numerics, chunk_tokens=16)
    chance = random.Random(order)
    names = chance.sample(list(REQUESTS), len(REQUESTS))
    for name in names:
        together.ask(name, **REQUESTS[name])
        for _ in range(chance.randrange(4)):
            together.step()
    together.finish()
    for name in names:
        assert together.tokens(name) == alone(bench, name, numerics=numerics, chunk_tokens=16), name
    assert not together.failures


def test_a_request_joins_between_two_steps_of_another(bench: MakeBench) -> None:
    b = bench()
    b.ask("first", max_tokens=10)
    b.step()
    b.ask("second", "x")
    b.step()
    b.step()
    decode, _ = b.runner.steps[-1]
    assert {row.sequence for row in decode} == {b.slot("first"), b.slot("second")}


def test_what_exceeds_the_slots_waits_in_order(bench: MakeBench) -> None:
    b = bench(slots=2)
    for number in range(5):
        b.ask(str(number), "abc" + "d" * number, max_tokens=3)
    step = b.step()
    assert (step.stats.running, step.stats.waiting) == (2, 3)
    b.finish()
    assert list(b.deltas) == ["0", "1", "2", "3", "4"]


def test_one_that_does_not_fit_now_waits_and_one_that_never_will_fails(bench: MakeBench) -> None:
    b = bench(slots=4, context=512, blocks=12)
    b.ask("large", "x", max_tokens=80)
    b.ask("waits", "x", max_tokens=40)
    b.ask("never", "x", max_tokens=200)
    b.step()
    assert b.engine.stats.running == 1
    b.finish()
    assert len(b.tokens("waits")) == 40
    assert set(b.failures) == {"never"}


def test_a_full_engine_is_empty_afterwards(bench: MakeBench) -> None:
    b = bench(slots=2)
    for name, request in REQUESTS.items():
        b.ask(name, **request)
    b.finish()
    stats = b.engine.stats
    assert (stats.running, stats.waiting, stats.kv_blocks_used) == (0, 0, 0)
    assert stats.generated_tokens == sum(len(b.tokens(name)) for name in REQUESTS)


def test_a_long_prompt_stops_neither_streams_nor_short_prompts(bench: MakeBench) -> None:
    b = bench(slots=4)
    b.ask("stream", max_tokens=60)
    b.step()
    b.ask("long", list(range(300)), max_tokens=2)
    for _ in range(3):
        b.step()
    b.ask("short", "xyz")
    before = len(b.deltas["stream"])
    for _ in range(4):
        b.step()
    assert "short" in b.deltas
    assert "long" not in b.deltas
    assert len(b.deltas["stream"]) == before + 4
    assert all(sum(len(row.token_ids) for row in prefill) <= 15 for _, prefill in b.runner.steps[1:])


def test_alone_a_prompt_is_computed_in_one_chunk(bench: MakeBench) -> None:
    b = bench()
    b.ask("only", list(range(32)), max_tokens=1)
    b.step()
    assert b.deltas["only"][-1].finish_reason is FinishReason.LENGTH


def test_choices_of_one_prompt_compute_it_once(bench: MakeBench) -> None:
    b = bench(slots=4)
    for number in range(4):
        b.ask(str(number), list(range(90)), temperature=1.0, seed=number, max_tokens=3)
    b.finish()
    assert b.engine.stats.prefill_tokens == 90 + 3
    assert b.engine.stats.reused_tokens == 3 * 89
    assert b.deltas["3"][0].cached_prompt_tokens == 89


def test_a_later_request_reuses_a_prompts_head_and_says_so(bench: MakeBench) -> None:
    b = bench()
    b.ask("first", list(range(50)))
    b.finish()
    b.ask("second", [*range(40), 399])
    b.finish()
    assert b.deltas["second"][0].cached_prompt_tokens == 40
    assert sum(delta.cached_prompt_tokens for delta in b.deltas["second"]) == 40


def test_a_cancelled_waiting_request_is_never_computed(bench: MakeBench) -> None:
    b = bench(slots=1)
    b.ask("running", max_tokens=30)
    b.step()
    for number in range(20):
        b.ask(f"gone {number}", "xyz")
    for number in range(20):
        b.engine.cancel(f"gone {number}")
    b.ask("live", "abc")
    b.finish()
    assert set(b.deltas) == {"running", "live"}
    assert b.engine.stats.generated_tokens == 30 + 8
    assert len({row.sequence for rows in b.runner.steps for part in rows for row in part}) == 2


def test_a_cancelled_running_request_frees_its_slot_for_the_next_step(bench: MakeBench) -> None:
    b = bench(slots=1)
    b.ask("leaves", max_tokens=100)
    b.step()
    b.ask("next", "x")
    b.step()
    said = len(b.deltas["leaves"])
    b.engine.cancel("leaves")
    b.step()
    assert len(b.deltas["leaves"]) == said
    assert len(b.deltas["next"]) == 1


def test_cancelling_what_is_not_there_does_nothing(bench: MakeBench) -> None:
    b = bench()
    b.ask("done", max_tokens=1)
    b.finish()
    b.engine.cancel("done")
    b.engine.cancel("never was")
    assert not b.engine.busy


@pytest.mark.parametrize("numerics", ["Fast", "Deterministic"])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_pause_does_not_change_tokens(bench: MakeBench, numerics: str, steps: int) -> None:
    request = {"prompt": list(range(50)), "temperature": 0.9, "seed": 4, "max_tokens": 12}
    b = bench(slots=1, numerics=numerics, chunk_tokens=16)
    b.ask("paused", **request)
    for _ in range(steps):
        b.step()
    b.engine.pause("paused")
    b.ask("other", "xyz", max_tokens=3)
    b.finish()
    assert len(b.tokens("other")) == 3
    b.engine.resume("paused")
    b.finish()
    assert b.tokens("paused") == alone_tokens(bench, **request)
    assert b.engine.stats.preemptions == 1
    assert b.engine.stats.kv_blocks_used == 0


def test_what_a_request_computed_itself_is_not_called_reused_after_a_pause(bench: MakeBench) -> None:
    b = bench(slots=1, chunk_tokens=16)
    b.ask("paused", list(range(50)))
    for _ in range(2):
        b.engine.pause("paused")
        b.engine.resume("paused")
        b.step()
    b.finish()
    assert b.deltas["paused"][0].cached_prompt_tokens <= 49


def test_a_paused_request_can_be_cancelled(bench: MakeBench) -> None:
    b = bench()
    b.ask("paused")
    b.step()
    b.engine.pause("paused")
    b.engine.cancel("paused")
    b.engine.resume("paused")
    assert not b.engine.busy


@pytest.mark.parametrize("length", [1, 2, 40, 100])
def test_every_prompt_token_gets_its_log_probability(bench: MakeBench, length: int) -> None:
    prompt = [number * 7 % 300 for number in range(length)]
    b = bench()
    b.ask("warm", prompt)
    b.finish()
    b.ask("echo", prompt, max_tokens=2, prompt_logprobs=3, logprobs=1)
    b.finish()
    first, *rest = b.deltas["echo"]
    entries = first.prompt_logprobs
    assert entries is not None
    assert [entry.token.token_id for entry in entries] == prompt
    assert (entries[0].token.logprob, entries[0].top) == (0.0, ())
    for position, entry in enumerate(entries[1:], start=1):
        expected = b.runner._logits(prompt[:position]).log_softmax(-1)
        assert entry.token.logprob == pytest.approx(float(expected[prompt[position]]), abs=1e-5)
        assert [item.token_id for item in entry.top] == expected.topk(3).indices.tolist()
    assert all(delta.prompt_logprobs is None for delta in rest)


def test_without_tokens_to_generate_the_prompt_is_only_scored(bench: MakeBench) -> None:
    b = bench()
    b.ask("scored", list(range(60)), max_tokens=0, prompt_logprobs=0)
    b.ask("nothing", max_tokens=0)
    b.finish()
    (scored,) = b.deltas["scored"]
    assert scored.prompt_logprobs is not None
    assert (len(scored.prompt_logprobs), scored.token_ids) == (60, ())
    assert b.deltas["nothing"][0].finish_reason is FinishReason.LENGTH
    assert b.engine.stats.generated_tokens == 0


def test_generation_ends_with_the_models_end_of_sequence(bench: MakeBench) -> None:
    probe = alone_tokens(bench, max_tokens=5)
    b = bench(eos=(probe[2],))
    b.ask("stops", ignore_eos=False, max_tokens=50)
    b.finish()
    assert b.tokens("stops") == probe[:3]
    assert b.deltas["stops"][-1].finish_reason is FinishReason.STOP


def test_nothing_is_generated_after_a_stop(bench: MakeBench) -> None:
    b = bench()
    b.ask("free", max_tokens=12)
    b.finish()
    text = b.text("free")
    stop = text[4:6]
    b.ask("stopped", max_tokens=12, stop=(stop,))
    b.finish()
    assert b.text("stopped") == text[: text.index(stop)]
    assert len(b.tokens("stopped")) < 12


def test_rows_that_a_step_computes_stay_within_the_slots(bench: MakeBench) -> None:
    b = bench(slots=2)
    for name, request in REQUESTS.items():
        b.ask(name, **request)
    b.finish()

    def rows(step: tuple[list[Row], list[Row]]) -> int:
        return len(step[0]) + len(step[1])

    assert max(map(rows, b.runner.steps)) == 2
