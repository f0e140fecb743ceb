"""What crosses the border between the HTTP process and the embedder's."""

from __future__ import annotations

import msgspec

# Names the model's directory in the environment of the child.
DIRECTORY_VARIABLE = "FERRY_EMBEDDER_WORKER_DIR"


class Embed(msgspec.Struct, frozen=True, tag=True):
    """Parent to child: embed these texts, at most `client.SLICE_TEXTS` at once."""

    id: int
    texts: tuple[str, ...]


class Embedding(msgspec.Struct, frozen=True, array_like=True):
    """``vector`` is a unit vector, float32 little-endian; None when the text has more ``tokens``
    (word pieces, special ones included) than the model reads, because a cut text would embed like
    every other one with the same beginning."""

    vector: bytes | None
    tokens: int


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """Child to parent, once. ``fingerprint`` identifies model and library; vectors of another
    fingerprint must never be compared with these."""

    dimension: int
    max_tokens: int
    fingerprint: str


class LoadFailed(msgspec.Struct, frozen=True, tag=True):
    """Child to parent, then it ends. ``reason`` is a sentence."""

    reason: str


class Embedded(msgspec.Struct, frozen=True, tag=True):
    id: int
    embeddings: tuple[Embedding, ...]


class EmbedFailed(msgspec.Struct, frozen=True, tag=True):
    """These texts alone failed; why is in the log."""

    id: int


FromChild = Loaded | LoadFailed | Embedded | EmbedFailed
