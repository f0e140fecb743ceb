"""A tiny real model as a repository holds it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from safetensors.numpy import save_file
from tokenizers import decoders, models, pre_tokenizers, trainers

from .fakehub import FakeHub


def write_tiny_model(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["The ferry leaves at noon."] * 20, trainer)
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "config.json").write_text(
        json.dumps({"model_type": "llama", "vocab_size": 300, "eos_token_id": 0})
    )
    (directory / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|end|>",
                "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}",
            }
        )
    )
    weights = np.random.default_rng(0).random((64, 64), dtype=np.float32)
    save_file({"model.embed_tokens.weight": weights}, directory / "model.safetensors", {"format": "pt"})
    return directory


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny model")


@pytest.fixture
def hub(tiny_model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """The tiny model on a hub that children of this process use, beside files that nobody needs."""
    hub = FakeHub({path.name: path.read_bytes() for path in tiny_model.iterdir()})
    hub.files |= {"pytorch_model.bin": b"pickle", "README.md": b"# tiny", "onnx/model.onnx": b"onnx"}
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    yield hub
    hub.close()


@pytest.fixture(scope="session")
def warm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder in which the tiny model is prepared once, for tests of what comes before that."""
    return tmp_path_factory.mktemp("cache")
