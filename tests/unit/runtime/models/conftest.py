"""Small model directories, written without torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file


def write_weights(path: Path, seed: int = 0) -> None:
    random = np.random.default_rng(seed)
    shapes = {"embed": (64, 32), "layer.0": (32, 32), "layer.1": (32, 4096)}
    save_file({name: random.random(shape, dtype=np.float32) for name, shape in shapes.items()}, path)


@pytest.fixture
def model_directory(tmp_path: Path) -> Callable[..., Path]:
    """``model_directory(**config)``: config.json, weights and tokenizer.json in a folder of its own."""
    made = 0

    def make(**config: object) -> Path:
        nonlocal made
        made += 1
        directory = tmp_path / f"model{made}"
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
        (directory / "tokenizer.json").write_text("{}")
        write_weights(directory / "model.safetensors")
        return directory

    return make
