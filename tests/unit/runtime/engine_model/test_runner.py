"""The runner's promises to the loop beyond right tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ferry_api.runtime_config import Numerics
from ferry_runtime.engine.model.contract import Row, Want
from ferry_runtime.engine.model.runner import TorchRunner

from .tiny import load, random_prompts, save_tiny_model


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> TorchRunner:
    directory: Path = tmp_path_factory.mktemp("model")
    save_tiny_model("mistral", directory)
    return load(directory, slots=3)


@pytest.fixture(autouse=True)
def _clean(runner: TorchRunner) -> None:
    runner.forget()
    assert runner.blocks_used == 0


def test_only_wanted_logits_are_returned(runner: TorchRunner) -> None:
    prompts = random_prompts(1, [6, 7, 8])
    for i, prompt in enumerate(prompts):
        runner.admit(i, prompt, 20)
    wants = (Want.NONE, Want.ALL, Want.LAST)
    rows = [Row(i, tuple(prompts[i]), 0, want) for i, want in enumerate(wants)]
    logits = runner.step([], rows)
    assert {i: len(rows) for i, rows in logits.items()} == {1: 7, 2: 1}
    assert runner.step([], []) == {}
    for i in range(3):
        runner.release(i)


def test_logits_may_be_changed_in_place(runner: TorchRunner) -> None:
    runner.admit(0, [1, 2, 3], 10)
    logits = runner.step([], [Row(0, (1, 2, 3), 0)])[0]
    logits[0, 5] = -1.0
    assert not logits.is_inference()
    runner.release(0)


def test_a_failed_step_leaves_everything_as_it_was(
    runner: TorchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = random_prompts(1, [40])[0]
    runner.admit(0, prompt, 60)
    expected = runner.step([], [Row(0, tuple(prompt), 0)])[0].clone()
    decoded = runner.step([Row(0, (5,), 40)], [])[0].clone()
    runner.release(0)
    runner.admit(1, prompt, 60, reuse=False)

    def fail_late(*_args: object) -> torch.Tensor:
        raise RuntimeError("in the middle")

    with monkeypatch.context() as patch:
        patch.setattr(type(runner._decoder), "logits", fail_late)
        with pytest.raises(RuntimeError, match="in the middle"):
            runner.step([], [Row(1, tuple(prompt), 0)])
    assert torch.equal(runner.step([], [Row(1, tuple(prompt), 0)])[1], expected)
    assert torch.equal(runner.step([Row(1, (5,), 40)], [])[1], decoded)
    runner.release(1)


def test_rows_out_of_order_or_room_are_refused(runner: TorchRunner) -> None:
    runner.admit(0, [1, 2, 3], 10)
    for row in (Row(0, (1,), 3), Row(0, (), 0), Row(0, (1,) * 17, 0)):
        with pytest.raises(ValueError, match="sequence 0 has"):
            runner.step([], [row])
    with pytest.raises(KeyError):
        runner.step([Row(7, (1,), 0)], [])
    runner.release(0)


def test_a_row_of_nan_does_not_reach_its_neighbours_or_successors(runner: TorchRunner) -> None:
    """Keys and values of a broken row stay in its own memory, which the next one finds zeroed."""
    prompt = random_prompts(1, [30])[0]
    runner.admit(0, prompt, 50)
    runner.admit(1, prompt, 50, reuse=False)
    runner.step([], [Row(i, tuple(prompt), 0, Want.NONE) for i in (0, 1)])
    expected = runner.step([Row(i, (9,), 30) for i in (0, 1)], [])[1].clone()
    slot = runner._pool.running(0).index
    for layer in runner._pool.arena.layers:
        layer[slot, :40] = torch.nan
    logits = runner.step([Row(0, (9,), 31), Row(1, (9,), 30)], [])
    assert logits[0].isnan().any()
    torch.testing.assert_close(logits[1], expected)
    runner.release(0)
    runner.release(1)
    runner.admit(2, prompt, 50, reuse=False)
    assert runner._pool.running(2).index in {0, 1, 2}
    for sequence in (3, 4):
        runner.admit(sequence, prompt, 50, reuse=False)
    rows = [Row(sequence, tuple(prompt), 0) for sequence in (2, 3, 4)]
    assert all(logits.isfinite().all() for logits in runner.step([], rows).values())
    for sequence in (2, 3, 4):
        runner.release(sequence)


@pytest.mark.parametrize("numerics", list(Numerics))
def test_what_is_not_finite_is_never_reused(tmp_path: Path, numerics: Numerics) -> None:
    save_tiny_model("llama", tmp_path)
    runner = load(tmp_path, slots=3, numerics=numerics)
    prompt = random_prompts(1, [65])[0]
    runner.admit(0, prompt, 70)
    runner.step([], [Row(0, tuple(prompt[:64]), 0, Want.NONE)])
    runner._pool.arena.layers[0][runner._pool.running(0).index, 3] = torch.nan
    assert runner.step([], [Row(0, tuple(prompt[64:]), 64)])[0].isnan().all()
    assert runner.admit(1, prompt, 70) == 0
    assert runner.adopt(1) == 0
    runner.release(0, tokens=prompt)
    assert runner.admit(2, prompt, 70) == 0
    assert runner.adopt(1) == 0


def test_adopted_tokens_are_not_computed_again(runner: TorchRunner) -> None:
    head = random_prompts(2, [70])[0]
    runner.admit(0, [*head, 1], 80)
    runner.admit(1, [*head, 2], 80)
    assert runner.adopt(1) == 0
    runner.step([], [Row(0, (*head, 1), 0, Want.NONE)])
    assert runner.adopt(1) == 70
    warm = runner.step([], [Row(1, (2,), 70)])[1].clone()
    runner.release(0)
    runner.release(1)
    runner.admit(2, [*head, 2], 80, reuse=False)
    cold = runner.step([], [Row(2, (*head, 2), 0)])[2]
    torch.testing.assert_close(warm, cold, atol=1e-4, rtol=1e-4)
    runner.release(2)
