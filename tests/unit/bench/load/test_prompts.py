from __future__ import annotations

import json

import numpy as np
import pytest
from bench.load.write_prompts import COUNT, PROMPTS, choose


def test_no_question_comes_twice() -> None:
    prompts = json.loads(PROMPTS.read_text())

    assert len(set(prompts)) == len(prompts) == COUNT


def test_questions_that_resemble_earlier_ones_are_left_out() -> None:
    vectors = {
        "a": np.array([1.0, 0.0], dtype=np.float32),
        "like a": np.array([0.8, 0.6], dtype=np.float32),
        "b": np.array([0.0, 1.0], dtype=np.float32),
    }

    assert choose(["a", "like a", "b"], vectors, 2) == ["a", "b"]


def test_too_few_different_questions_are_an_error() -> None:
    with pytest.raises(SystemExit, match="Only 1 of 2"):
        choose(["a", "a"], {"a": np.array([1.0], dtype=np.float32)}, 2)
