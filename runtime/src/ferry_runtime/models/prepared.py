"""A model directory that is ready to serve, and what identifies its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ferry_runtime.model_files import chat_templates, special_tokens

RECORD = "ferry.json"
# Grows when preparation starts to write something else, so that older copies are made anew.
LAYOUT = 1

_SAMPLE_BYTES = 4096
_SMALL_FILE_BYTES = 64 << 20


class PreparedModel(msgspec.Struct, frozen=True, kw_only=True):
    """``directory`` holds config.json, *.safetensors, tokenizer.json and tokenizer_config.json,
    and where the model has them generation_config.json and chat templates.

    ``digest`` (hex, SHA-256) changes whenever an answer could: configuration, weights, tokenizer
    or template. ``revision`` is the resolved commit of a hub repository.
    """

    directory: str
    source: str
    digest: str
    weights_bytes: int
    revision: str | None = None
    layout: int = LAYOUT

    @property
    def path(self) -> Path:
        return Path(self.directory)


def model_digest(directory: Path) -> str:
    """Identify a prepared directory by content, the same on every machine.

    Weights are sampled, because hashing 100 GB would hold up every start: each safetensors file
    counts with its length, its header, and the first and middle 4 KiB of every tensor. Training
    or merging changes every tensor that it touches throughout, so the samples see it; a few bytes
    patched by hand elsewhere in a tensor would go unnoticed.
    """
    digest = hashlib.sha256(f"ferry-model-{LAYOUT}".encode())
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        path = directory / name
        _add(digest, name, path.read_bytes() if path.is_file() else b"")
    _add(digest, "special", json.dumps(special_tokens(directory), sort_keys=True).encode())
    _add(digest, "templates", json.dumps(chat_templates(directory), sort_keys=True).encode())
    for path in weight_files(directory):
        _add(digest, path.name, safetensors_sample(path))
    return digest.hexdigest()


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files that transformers would load: those of the index, or the one file."""
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return [directory / name for name in sorted(names)]
    return [directory / "model.safetensors"]


def safetensors_sample(path: Path) -> bytes:
    """A digest of the file's length, header and two samples of each tensor.

    The format: 8 bytes little-endian header length, a JSON header with data_offsets relative to
    its end, the data. Raises ValueError when the file is not of this format.
    """
    digest = hashlib.sha256()
    size = path.stat().st_size
    digest.update(size.to_bytes(8, "little"))
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= size - 8:
            raise ValueError(f"{path.name} is not a safetensors file, or it is cut short")
        header = file.read(length)
        digest.update(header)
        for begin, end in _offsets(header):
            for at in {begin, (begin + end) // 2}:
                file.seek(8 + length + at)
                digest.update(file.read(min(_SAMPLE_BYTES, end - at)))
            if 8 + length + end > size:
                raise ValueError(f"{path.name} is cut short")
    return digest.digest()


def file_sample(path: Path) -> str:
    """Hex digest of a file by its length and 64 samples; small files count whole."""
    size = path.stat().st_size
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    with path.open("rb") as file:
        if size <= _SMALL_FILE_BYTES:
            digest.update(file.read())
            return digest.hexdigest()
        for part in range(64):
            file.seek(size * part // 64)
            digest.update(file.read(_SMALL_FILE_BYTES // 64))
    return digest.hexdigest()


def _offsets(header: bytes) -> Iterator[tuple[int, int]]:
    tensors = json.loads(header)
    tensors.pop("__metadata__", None)
    for name in sorted(tensors):
        begin, end = tensors[name]["data_offsets"]
        yield int(begin), int(end)


def _add(digest: hashlib._Hash, name: str, content: bytes) -> None:
    """Length-prefixed, so that no two different sets of files give the same stream."""
    for part in (name.encode(), content):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)


def read_record(directory: Path) -> PreparedModel | None:
    """What preparation left in the directory; None when it is absent, foreign or of another layout."""
    try:
        record = msgspec.json.decode((directory / RECORD).read_bytes(), type=PreparedModel)
    except (OSError, msgspec.DecodeError):
        return None
    return record if record.layout == LAYOUT else None


def write_record(directory: Path, record: PreparedModel) -> None:
    (directory / RECORD).write_bytes(msgspec.json.format(msgspec.json.encode(record)))
