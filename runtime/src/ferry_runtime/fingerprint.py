"""Identifying large files by content without reading all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

_SAMPLE_BYTES = 4096
_SMALL_FILE_BYTES = 64 << 20
_PARTS = 64


def safetensors_sample(path: Path) -> bytes:
    """A digest of the file's length, its header, and the first and middle 4 KiB of every tensor.

    The format: 8 bytes little-endian header length, a JSON header with data_offsets relative to
    its end, the data. Raises ValueError when the file is not of this format or is cut short.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= size - 8:
            raise ValueError(f"{path.name} is not a safetensors file, or it is cut short")
        header = file.read(length)
        digest.update(header)
        for begin, end in _offsets(header):
            if 8 + length + end > size:
                raise ValueError(f"{path.name} is cut short")
            for at in sorted({begin, (begin + end) // 2}):
                file.seek(8 + length + at)
                digest.update(file.read(min(_SAMPLE_BYTES, end - at)))
    return digest.digest()


def file_sample(path: Path) -> str:
    """Hex digest of a file by its length and 64 samples of 1 MiB; a small one counts whole."""
    size = path.stat().st_size
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    with path.open("rb") as file:
        if size <= _SMALL_FILE_BYTES:
            digest.update(file.read())
            return digest.hexdigest()
        for part in range(_PARTS):
            file.seek(size * part // _PARTS)
            digest.update(file.read(_SMALL_FILE_BYTES // _PARTS))
    return digest.hexdigest()


class ContentDigest:
    """SHA-256 over named parts, each with its length, so that no two sets give the same stream."""

    def __init__(self, purpose: str) -> None:
        self._digest = hashlib.sha256(purpose.encode())

    def add(self, name: str, content: bytes) -> None:
        for part in (name.encode(), content):
            self._digest.update(len(part).to_bytes(8, "little"))
            self._digest.update(part)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def _offsets(header: bytes) -> Iterator[tuple[int, int]]:
    tensors = json.loads(header)
    tensors.pop("__metadata__", None)
    for name in sorted(tensors):
        begin, end = tensors[name]["data_offsets"]
        yield int(begin), int(end)
