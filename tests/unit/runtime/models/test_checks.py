"""What is refused before anything is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ferry_runtime.errors import ModelPreparationError
from ferry_runtime.models.checks import check_directory, files_to_fetch

ORIGIN = "hf://owner/name"


def test_a_plain_model_passes(model_directory: Callable[..., Path]) -> None:
    check_directory(model_directory(), ORIGIN)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelPreparationError, match="there is no directory"):
        check_directory(tmp_path / "nothing", ORIGIN)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_remote_code_is_refused(model_directory: Callable[..., Path], file: str) -> None:
    directory = model_directory()
    content = {"auto_map": {"AutoModelForCausalLM": "modeling_x.Model"}, "model_type": "llama"}
    (directory / file).write_text(json.dumps(content))

    with pytest.raises(ModelPreparationError, match="auto_map"):
        check_directory(directory, ORIGIN)


def test_quantized_weights_are_refused(model_directory: Callable[..., Path]) -> None:
    with pytest.raises(ModelPreparationError, match=r"already quantized \(awq\)"):
        check_directory(model_directory(quantization_config={"quant_method": "awq"}), ORIGIN)


def test_a_missing_shard_is_named(model_directory: Callable[..., Path]) -> None:
    directory = model_directory()
    weight_map = {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    with pytest.raises(ModelPreparationError, match="model-00002-of-00002"):
        check_directory(directory, ORIGIN)


@pytest.mark.parametrize("name", ["../../etc/shadow.safetensors", "weights.bin"])
def test_an_index_may_not_lead_elsewhere(model_directory: Callable[..., Path], name: str) -> None:
    directory = model_directory()
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))

    with pytest.raises(ModelPreparationError, match="outside its directory"):
        check_directory(directory, ORIGIN)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"config.json", "pytorch_model.bin"}, "pickles"),
        ({"config.json", "model.pt"}, "pickles"),
        ({"config.json", "model.gguf"}, "no model.safetensors"),
        ({"model.Q4.gguf"}, "holds GGUF files"),
        ({"adapter_config.json", "adapter_model.safetensors"}, "is an adapter"),
        ({"README.md"}, "not a Hugging Face model"),
        ({"config.json"}, "no model.safetensors"),
    ],
)
def test_a_repository_without_usable_weights_is_refused(names: set[str], says: str) -> None:
    with pytest.raises(ModelPreparationError, match=says):
        files_to_fetch(names, ORIGIN)


def test_only_what_serving_needs_is_fetched() -> None:
    names = {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "chat_template.jinja",
        "additional_chat_templates/tool_use.jinja",
        "pytorch_model.bin",
        "consolidated.safetensors",
        "onnx/model.onnx",
        "onnx/model.safetensors",
        "modeling_custom.py",
        "README.md",
    }

    assert set(files_to_fetch(names, ORIGIN)) == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "chat_template.jinja",
        "additional_chat_templates/tool_use.jinja",
    }
