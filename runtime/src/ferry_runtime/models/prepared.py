"""A model directory that is ready to serve, and what identifies its content."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from ferry_runtime.fingerprint import ContentDigest, safetensors_sample
from ferry_runtime.model_files import chat_templates, special_tokens

RECORD = "ferry.json"
# Grows when preparation starts to write something else, so that older copies are made anew.
LAYOUT = 1


class PreparedModel(msgspec.Struct, frozen=True, kw_only=True):
    """``directory`` holds config.json, *.safetensors, tokenizer.json and tokenizer_config.json,
    and where the model has them generation_config.json and chat templates.

    ``digest`` (hex, SHA-256) changes whenever an answer could: configuration, weights, tokenizer
    or template. ``revision`` is the resolved commit of a hub repository.
    """

    directory: str
    source: str
    digest: str
    weights_bytes: int  # 0: prepared without weights
    revision: str | None = None
    layout: int = LAYOUT

    @property
    def path(self) -> Path:
        return Path(self.directory)


def model_digest(directory: Path, *, weights: bool = True) -> str:
    """Identify a model directory by content, the same on every machine.

    Weights are sampled (see `safetensors_sample`), because hashing 100 GB would hold up every
    start. Training or merging changes every tensor that it touches throughout, so the samples see
    it; a few bytes patched by hand elsewhere in a tensor would go unnoticed.
    """
    digest = ContentDigest(f"ferry-model-{LAYOUT}")
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        path = directory / name
        digest.add(name, path.read_bytes() if path.is_file() else b"")
    digest.add("special", json.dumps(special_tokens(directory), sort_keys=True).encode())
    digest.add("templates", json.dumps(chat_templates(directory), sort_keys=True).encode())
    for path in weight_files(directory) if weights else ():
        digest.add(path.name, safetensors_sample(path))
    return digest.hexdigest()


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files that transformers would load: those of the index, or the one file."""
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return [directory / name for name in sorted(names)]
    return [directory / "model.safetensors"]


def read_record(directory: Path) -> PreparedModel | None:
    """What preparation left in the directory; None when it is absent, foreign or of another layout."""
    try:
        record = msgspec.json.decode((directory / RECORD).read_bytes(), type=PreparedModel)
    except (OSError, msgspec.DecodeError):
        return None
    return record if record.layout == LAYOUT else None


def write_record(directory: Path, record: PreparedModel) -> None:
    (directory / RECORD).write_bytes(msgspec.json.format(msgspec.json.encode(record)))
