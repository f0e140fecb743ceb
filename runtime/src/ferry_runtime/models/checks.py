"""What a model directory must and must not hold before anything of it is loaded.

Pickles can run code when opened, and ``auto_map`` asks for a repository's own Python: both are
refused. See https://github.com/huggingface/safetensors#yet-another-format-.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from ferry_runtime.errors import ModelPreparationError
from ferry_runtime.model_files import read_json

INDEX = "model.safetensors.index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_SMALL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "tekken.json",
    "chat_template.jinja",
    "chat_template.json",
    INDEX,
)


def files_to_fetch(names: Collection[str], origin: str, *, weights: bool = True) -> list[str]:
    """Of a repository's files, those that serving needs apart from sharded weights.

    Shards are named by the index, which has to be read first. Raises ModelPreparationError when
    the repository holds no weights that Ferry loads.
    """
    if "config.json" not in names:
        raise ModelPreparationError(_no_config(names, origin))
    wanted = {name for name in names if name in _SMALL_FILES or name.startswith("additional_chat_templates/")}
    if not weights:
        return sorted(wanted - {INDEX})
    if INDEX not in names and "model.safetensors" not in names:
        raise ModelPreparationError(_no_weights(names, origin))
    if INDEX not in names:
        wanted.add("model.safetensors")
    return sorted(wanted)


def check_directory(directory: Path, origin: str, *, weights: bool = True) -> None:
    """Raises ModelPreparationError with what is wrong and what to do; ``origin`` is the source URI.

    Without ``weights`` only what is read of them: configuration and tokenizer."""
    if not directory.is_dir():
        raise ModelPreparationError(f"{origin}: there is no directory {directory}.")
    names = {path.name for path in directory.iterdir()}
    files_to_fetch(names, origin, weights=weights)
    config = read_json(directory / "config.json")
    for part in (config, read_json(directory / "tokenizer_config.json")):
        if part.get("auto_map"):
            raise ModelPreparationError(
                f"{origin} asks to run Python code that it brings along (auto_map), which Ferry never does: "
                "use a model whose family transformers itself supports."
            )
    if not weights:
        return
    method = (config.get("quantization_config") or {}).get("quant_method")
    if method or config.get("quantization_config"):
        raise ModelPreparationError(
            f"{origin} holds weights that are already quantized ({method or 'unknown method'}), which this "
            "release does not load: use the repository of the original weights."
        )
    _check_shards(directory, origin)


def _check_shards(directory: Path, origin: str) -> None:
    index = directory / INDEX
    if not index.is_file():
        return
    shards = index_shards(index)
    missing = sorted(name for name in shards if not (directory / name).is_file())
    if missing:
        raise ModelPreparationError(
            f"{origin} is incomplete: {len(missing)} of {len(shards)} weight files are missing, "
            f"{missing[0]} for one. Copy it again."
        )


def index_shards(index: Path) -> set[str]:
    """The file names in a safetensors index; a name may not lead out of its directory."""
    try:
        shards = {str(name) for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()}
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ModelPreparationError(f"{index} is not a valid weight index.") from error
    if any("/" in name or "\\" in name or not name.endswith(".safetensors") for name in shards):
        raise ModelPreparationError(f"{index} names files outside its directory or of another format.")
    return shards


def _no_config(names: Collection[str], origin: str) -> str:
    if "adapter_config.json" in names:
        return f"{origin} is an adapter, not a model: merge it into its base model first."
    if any(name.endswith(".gguf") for name in names):
        return f"{origin} holds GGUF files, which Ferry loads only from packages: use the original weights."
    return f"{origin} has no config.json, so it is not a Hugging Face model."


def _no_weights(names: Collection[str], origin: str) -> str:
    if any(name.endswith(_PICKLES) for name in names):
        return (
            f"{origin} holds its weights only as pickles, which can run code when opened; Ferry loads "
            "safetensors alone: choose a revision with model.safetensors, or convert the weights."
        )
    return f"{origin} has no model.safetensors."
