"""A model's digest changes whenever an answer could, and only then."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ferry_runtime.fingerprint import ContentDigest, file_sample, safetensors_sample
from ferry_runtime.models.prepared import PreparedModel, model_digest, read_record, write_record

from .conftest import write_weights


def test_copies_have_the_same_digest(model_directory: Callable[..., Path]) -> None:
    first, second = model_directory(), model_directory()
    os.utime(second / "model.safetensors", (1, 1))

    assert model_digest(first) == model_digest(second)


@pytest.mark.parametrize("tensor", ["embed", "layer.0", "layer.1"])
def test_training_any_tensor_changes_it(model_directory: Callable[..., Path], tensor: str) -> None:
    directory = model_directory()
    before = model_digest(directory)
    weights = load_file(directory / "model.safetensors")
    weights[tensor] = weights[tensor] + np.float32(1e-6)
    save_file(weights, directory / "model.safetensors")

    assert model_digest(directory) != before


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", {"model_type": "llama", "rope_theta": 2}),
        ("generation_config.json", {"eos_token_id": 5}),
        ("tokenizer.json", {"model": {}}),
        ("tokenizer_config.json", {"bos_token": "<x>"}),
        ("tokenizer_config.json", {"chat_template": "{{ messages }}"}),
    ],
)
def test_every_small_file_that_decides_counts(
    model_directory: Callable[..., Path], file: str, content: object
) -> None:
    directory = model_directory()
    before = model_digest(directory)
    (directory / file).write_text(json.dumps(content))

    assert model_digest(directory) != before


def test_what_decides_nothing_does_not_count(model_directory: Callable[..., Path]) -> None:
    directory = model_directory()
    before = model_digest(directory)
    (directory / "README.md").write_text("changed")
    (directory / "tokenizer_config.json").write_text(json.dumps({"name_or_path": "/somewhere/else"}))

    assert model_digest(directory) == before


def test_every_shard_counts(model_directory: Callable[..., Path]) -> None:
    directory = model_directory()
    weight_map = {"a": "model.safetensors", "b": "second.safetensors"}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    write_weights(directory / "second.safetensors", seed=1)
    before = model_digest(directory)
    write_weights(directory / "second.safetensors", seed=2)

    assert model_digest(directory) != before


@pytest.mark.parametrize("keep", [4, 100, -50])
def test_a_cut_file_is_noticed(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "model.safetensors"
    write_weights(path)
    path.write_bytes(path.read_bytes()[:keep])

    with pytest.raises(ValueError, match="cut short"):
        safetensors_sample(path)


def test_a_large_file_is_sampled_at_its_end_too(tmp_path: Path) -> None:
    path = tmp_path / "large"
    size = 65 << 20
    with path.open("wb") as file:
        file.truncate(size)
    before = file_sample(path)
    with path.open("r+b") as file:
        file.seek(size - (1 << 20))
        file.write(b"x")

    assert file_sample(path) != before


def test_parts_cannot_run_into_each_other() -> None:
    first, second = ContentDigest("x"), ContentDigest("x")
    first.add("ab", b"c")
    second.add("a", b"bc")

    assert first.hexdigest() != second.hexdigest()


@pytest.mark.parametrize("content", [b"", b"{}", b'{"layout": 0}', b"not json"])
def test_a_foreign_record_is_no_record(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ferry.json").write_bytes(content)

    assert read_record(tmp_path) is None


def test_a_record_reads_back(tmp_path: Path) -> None:
    record = PreparedModel(directory="/x", source="hf://a/b", digest="d", weights_bytes=3, revision="c")
    write_record(tmp_path, record)

    assert read_record(tmp_path) == record
