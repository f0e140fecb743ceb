"""A request that fails, fails alone; an engine that cannot go on says so."""

from typing import Any

import pytest

from ferry_runtime.engine.worker.stepping import EngineBroken

from .bench import MakeBench, alone_tokens


def test_a_row_that_fails_in_the_model_fails_alone(bench: MakeBench) -> None:
    b = bench()
    for name in ("a", "bad", "c"):
        b.ask(name, name * 3)
    b.step()
    bad = b.slot("bad")
    b.runner.fails = lambda row: row.sequence == bad
    b.finish()
    assert set(b.failures) == {"bad"}
    for name in ("a", "c"):
        solo = bench()
        solo.ask(name, name * 3)
        solo.finish()
        assert b.tokens(name) == solo.tokens(name)


def test_a_step_that_fails_once_costs_nobody_anything(bench: MakeBench) -> None:
    b = bench()
    b.ask("a", max_tokens=5)
    b.ask("b", "xyz", max_tokens=5)
    b.step()
    failures = iter([True])
    b.runner.fails = lambda _: next(failures, False)
    b.finish()
    assert not b.failures
    assert len(b.tokens("a")) == len(b.tokens("b")) == 5


def test_when_every_row_fails_the_process_must_go(bench: MakeBench) -> None:
    b = bench()
    b.ask("a")
    b.ask("b", "xyz")
    b.step()
    b.runner.fails = lambda _: True
    with pytest.raises(EngineBroken):
        b.step()


def test_lone_requests_that_all_fail_end_the_process_too(bench: MakeBench) -> None:
    b = bench(slots=1)
    b.runner.fails = lambda _: True
    for number in range(3):
        b.ask(str(number))
    b.step()
    b.step()
    assert set(b.failures) == {"0", "1"}
    with pytest.raises(EngineBroken):
        b.step()


def test_a_row_whose_logits_are_not_finite_fails_alone(bench: MakeBench) -> None:
    b = bench()
    b.ask("good", max_tokens=4)
    b.ask("bad", "xyz", max_tokens=4)
    b.step()
    bad = b.slot("bad")
    b.runner.not_finite = lambda row: row.sequence == bad
    b.finish()
    assert set(b.failures) == {"bad"}
    assert len(b.tokens("good")) == 4


@pytest.mark.parametrize("part", ["sampler", "output"])
def test_a_fault_in_one_rows_own_sampling_or_text_stays_there(bench: MakeBench, part: str) -> None:
    def fault(*_: Any) -> None:
        raise ValueError("a fault of this row")

    seeded = {"temperature": 0.8, "seed": 5, "max_tokens": 6}
    b = bench()
    b.ask("good", **seeded)
    b.ask("bad", "xyz", temperature=0.7, seed=1)
    b.step()
    row = b.engine._sequences["bad"]
    if part == "sampler":
        row.sampler.draw = fault  # type: ignore[method-assign]
    else:
        row.output.add = fault  # type: ignore[method-assign]
    b.finish()
    assert set(b.failures) == {"bad"}
    solo = bench()
    solo.ask("good", **seeded)
    solo.finish()
    assert b.tokens("good") == solo.tokens("good")


@pytest.mark.parametrize(
    ("sampling", "word"),
    [
        ({"stop_token_ids": (999_999,)}, "stop_token_ids"),
        ({"stop_token_ids": (-1,)}, "stop_token_ids"),
        ({"logit_bias": {10**12: 1.0}}, "logit_bias"),
        ({"logit_bias": {1: float("nan")}}, "finite"),
        ({"temperature": float("inf")}, "finite"),
        ({"max_tokens": 10_000}, "context"),
        ({"prompt": [5, 10**9]}, "prompt"),
        ({"prompt": []}, "prompt"),
    ],
    ids=str,
)
def test_what_could_write_outside_its_row_is_refused(
    bench: MakeBench, sampling: dict[str, Any], word: str
) -> None:
    b = bench()
    b.ask("good", max_tokens=4)
    b.step()
    b.ask("bad", **{"min_tokens": 2, **sampling})
    b.finish()
    assert word in b.failures["bad"]
    assert b.tokens("good") == alone_tokens(bench, max_tokens=4)


def test_neither_prompts_nor_answers_are_logged(bench: MakeBench, caplog: pytest.LogCaptureFixture) -> None:
    b = bench()
    b.ask("a", "a secret prompt")
    b.ask("b", "another secret")
    b.ask("c", "secret " * 100)
    b.step()
    slot = b.slot("b")
    b.runner.fails = lambda row: row.sequence == slot
    with caplog.at_level("DEBUG"):
        b.finish()
    assert "failed alone" in caplog.text
    assert "secret" not in caplog.text
    assert str(b.kind.ids("another")[0]) + "," not in caplog.text
