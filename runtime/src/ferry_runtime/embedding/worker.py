"""The embedder's process: sentence-transformers behind a channel. Started by `EmbeddingClient`.

Requests that wait at the same time are embedded in one call, which is where a batch of short
texts gains its speed.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from ferry_runtime.embedding.messages import (
    DIRECTORY_VARIABLE,
    Embed,
    Embedded,
    Embedding,
    EmbedFailed,
    Loaded,
    LoadFailed,
)
from ferry_runtime.fingerprint import ContentDigest, safetensors_sample
from ferry_runtime.process import connect

logger = logging.getLogger(__name__)

_BATCH_TEXTS = 32


def main() -> int:
    channel = connect(Embed)
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    directory = Path(os.environ[DIRECTORY_VARIABLE])
    inbox: SimpleQueue[Embed | None] = SimpleQueue()
    channel.read_into(inbox)
    try:
        embedder = SentenceEmbedder(directory)
    except Exception:
        logger.exception("the embedding model cannot be loaded")
        channel.send(LoadFailed("The embedding model cannot be loaded; the reason is in the server's log."))
        return 1
    channel.send(embedder.loaded)
    while batch := _gather(inbox):
        for answer in _answers(embedder, batch):
            channel.send(answer)
    return 0


class SentenceEmbedder:
    """A sentence-transformers model on CPU threads (as many as OMP_NUM_THREADS says)."""

    def __init__(self, directory: Path) -> None:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 (seconds long: after connect)

        self._model: Any = SentenceTransformer(str(directory), device="cpu", local_files_only=True)
        tokenizer = self._model.tokenizer
        # The file's own limits (128 tokens, always padded) would hide how long a text is.
        self._counter: Any = type(tokenizer.backend_tokenizer).from_str(tokenizer.backend_tokenizer.to_str())
        self._counter.no_truncation()
        self._counter.no_padding()
        self.loaded = Loaded(
            dimension=int(self._model.get_embedding_dimension()),
            max_tokens=int(self._model.max_seq_length),
            fingerprint=_fingerprint(directory),
        )

    def embed(self, texts: list[str]) -> list[Embedding]:
        counts = [len(encoding.ids) for encoding in self._counter.encode_batch(texts)]
        fitting = [text for text, count in zip(texts, counts, strict=True) if count <= self.loaded.max_tokens]
        vectors = iter(
            self._model.encode(
                fitting, batch_size=_BATCH_TEXTS, normalize_embeddings=True, show_progress_bar=False
            )
            if fitting
            else ()
        )
        return [
            Embedding(
                next(vectors).astype("<f4").tobytes() if count <= self.loaded.max_tokens else None, count
            )
            for count in counts
        ]


def _gather(inbox: SimpleQueue[Embed | None]) -> list[Embed]:
    """Wait for one request, then take what came meanwhile; empty when the parent said goodbye."""
    first = inbox.get()
    if first is None:
        return []
    batch, texts = [first], len(first.texts)
    while texts < _BATCH_TEXTS:
        try:
            further = inbox.get_nowait()
        except Empty:
            break
        if further is None:
            inbox.put(None)
            break
        batch.append(further)
        texts += len(further.texts)
    return batch


def _answers(embedder: SentenceEmbedder, batch: list[Embed]) -> list[Embedded | EmbedFailed]:
    try:
        embeddings = embedder.embed([text for request in batch for text in request.texts])
    except Exception:
        logger.exception("embedding failed")
        if len(batch) == 1:
            return [EmbedFailed(batch[0].id)]
        # One bad text must not fail its neighbours.
        return [answer for request in batch for answer in _answers(embedder, [request])]
    answers: list[Embedded | EmbedFailed] = []
    for request in batch:
        own, embeddings = embeddings[: len(request.texts)], embeddings[len(request.texts) :]
        answers.append(Embedded(request.id, tuple(own)))
    return answers


def _fingerprint(directory: Path) -> str:
    digest = ContentDigest("ferry-embedder")
    for path in sorted(directory.rglob("*")):
        if path.suffix == ".safetensors":
            digest.add(path.name, safetensors_sample(path))
        elif path.suffix in (".json", ".txt"):
            digest.add(str(path.relative_to(directory)), path.read_bytes())
    digest.add("sentence-transformers", version("sentence-transformers").encode())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
