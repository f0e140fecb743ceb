"""Few shapes reach the kernels, whatever the loop asks for: each costs memory for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ferry_api.runtime_config import DType
from ferry_runtime.engine.model.contract import Row, Want
from ferry_runtime.engine.model.decoder import Decoder
from ferry_runtime.engine.model.shapes import padded_rows

from .tiny import load, random_prompts, save_tiny_model


@pytest.mark.parametrize("slots", [1, 5, 8, 40])
def test_decode_batches_stay_and_the_rest_is_padded_to_few_numbers(slots: int) -> None:
    assert [padded_rows(rows, slots) for rows in range(1, slots + 1)] == list(range(1, slots + 1))
    larger = [padded_rows(rows, slots) for rows in range(slots + 1, 4000)]
    assert all(rows <= padded < rows * 1.25 + 16 for rows, padded in enumerate(larger, slots + 1))
    assert len(set(larger)) <= 44


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_chunks_of_any_length_are_computed_in_few_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    save_tiny_model(name, tmp_path)
    runner = load(tmp_path, dtype=DType.BFLOAT16, slots=2)
    seen: set[tuple[int, ...]] = set()
    for method in ("hidden", "logits"):
        plain = getattr(Decoder, method)

        def recorded(self: Decoder, x: torch.Tensor, *rest: object, plain: object = plain) -> torch.Tensor:
            seen.add(tuple(x.shape[:1]))
            return plain(self, x, *rest)  # type: ignore[operator, no-any-return]

        monkeypatch.setattr(Decoder, method, recorded)
    prompt = random_prompts(1, [150])[0]
    for length in range(1, 140, 3):
        runner.admit(0, prompt[:length], length, reuse=False)
        want = (Want.ALL, Want.LAST)[length % 2]
        logits = runner.step([], [Row(0, tuple(prompt[:length]), 0, want)])[0]
        assert len(logits) == (length if want is Want.ALL else 1)
        runner.release(0)
    assert seen <= {(1,), (2,), *((n,) for n in range(16, 145, 16))}
