"""Tiny tokenizers of the families that the engine serves, trained here and saved as repositories are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoTokenizer,
    GemmaTokenizer,
    GPT2Tokenizer,
    GPTNeoXTokenizer,
    LlamaTokenizer,
    Qwen2Tokenizer,
)

from ferry_runtime.models.tokenizer_files import write_tokenizer
from ferry_runtime.text.tokenizer import Tokenizer

_CORPUS = (
    "The ferry leaves at noon with eight people and a dog, or after fifty milliseconds. ",
    "What is the capital of France? Paris is the capital of France.\n",
    "def double(x):\n    return x * 2  # héllo wörld 你好 🚢\n",
)


@dataclass(frozen=True)
class Family:
    """``reference`` is what transformers makes of the repository; ``ours`` what we make of it."""

    reference: Any
    ours: Tokenizer
    prepared: Path


def _byte_level(*special: str) -> dict[str, Any]:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=380, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_CORPUS * 30, trainer)
    return _vocabulary(tokenizer)


def _sentencepiece_like() -> dict[str, Any]:
    tokenizer = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=480, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(_CORPUS * 30, trainer)
    return _vocabulary(tokenizer)


def _vocabulary(tokenizer: tokenizers.Tokenizer) -> dict[str, Any]:
    model = json.loads(tokenizer.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


def _gpt2() -> Any:
    return GPT2Tokenizer(**_byte_level("<|endoftext|>"))


def _gpt_neox() -> Any:
    return GPTNeoXTokenizer(**_byte_level("<|endoftext|>"))


def _opt() -> Any:
    ends = {"bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"}
    return GPT2Tokenizer(**_byte_level("<pad>", "</s>"), **ends, add_bos_token=True)


def _qwen2() -> Any:
    marks = ["<|im_start|>", "<|im_end|>"]
    return Qwen2Tokenizer(**_byte_level("<|endoftext|>", *marks), extra_special_tokens=marks)


def _llama() -> Any:
    return LlamaTokenizer(**_sentencepiece_like(), add_bos_token=True)


def _mistral() -> Any:
    return LlamaTokenizer(**_sentencepiece_like(), add_bos_token=True, legacy=False)


def _gemma() -> Any:
    return GemmaTokenizer(**_sentencepiece_like())


FAMILIES = {
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "qwen2": _qwen2,
    "llama": _llama,
    "mistral": _mistral,
    "gemma2": _gemma,
}


@pytest.fixture(scope="session", params=list(FAMILIES))
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    repository = tmp_path_factory.mktemp(request.param)
    made = FAMILIES[request.param]()
    made.save_pretrained(repository)
    config = {"model_type": request.param, "vocab_size": len(made)}
    (repository / "config.json").write_text(json.dumps(config))
    return prepared(repository, tmp_path_factory.mktemp("prepared"))


def prepared(repository: Path, target: Path) -> Family:
    write_tokenizer(repository, target, f"file://{repository}")
    return Family(AutoTokenizer.from_pretrained(repository), Tokenizer.from_directory(target), target)
