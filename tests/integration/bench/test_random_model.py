from __future__ import annotations

from pathlib import Path

import pytest
from bench.load.random_model import Shape, random_model

TINY = Shape("random-tiny", layers=1, width=32, heads=2, key_value_heads=1, between=48)


@pytest.mark.timeout(300)  # it imports torch and transformers
def test_a_model_of_another_shape_speaks_with_the_packaged_tokenizer(
    smollm2_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    monkeypatch.setenv("FERRY_CACHE_DIR", str(tmp_path))

    folder = random_model(TINY, smollm2_dir)

    tokens = AutoTokenizer.from_pretrained(folder)("a question", return_tensors="pt")
    logits = AutoModelForCausalLM.from_pretrained(folder)(**tokens).logits
    assert logits.shape[-1] == len(AutoTokenizer.from_pretrained(smollm2_dir))
    made = (folder / "config.json").stat().st_mtime_ns
    assert random_model(TINY, smollm2_dir) == folder
    assert (folder / "config.json").stat().st_mtime_ns == made  # once per machine
