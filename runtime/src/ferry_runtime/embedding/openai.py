"""The embedder as /v1/embeddings needs it: numbers, and a refusal instead of a cut text."""

from __future__ import annotations

from collections.abc import Sequence

from ferry_runtime.embedding.client import EmbeddingClient, to_floats
from ferry_runtime.errors import InvalidRequest

MODEL_NAME = "all-MiniLM-L6-v2"
_DIMENSIONS = 384


class TextEmbedder:
    """Implements `api.services.Embedder` over the client. Knows its model before that is loaded,
    which happens with the first text."""

    def __init__(self, client: EmbeddingClient) -> None:
        self._client = client

    @property
    def name(self) -> str:
        return MODEL_NAME

    @property
    def dimensions(self) -> int:
        info = self._client.info
        return info.dimension if info is not None else _DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> Sequence[tuple[Sequence[float], int]]:
        """Raises InvalidRequest when a text is longer than the model reads; see `EmbeddingClient.embed`."""
        results: list[tuple[Sequence[float], int]] = []
        for index, embedding in enumerate(await self._client.embed(texts)):
            if embedding.vector is None:
                info = self._client.info
                most = info.max_tokens if info is not None else 0
                raise InvalidRequest(
                    f"input[{index}] has {embedding.tokens} tokens, and {self.name} reads {most}: split it.",
                    param="input",
                    code="context_length_exceeded",
                )
            results.append((to_floats(embedding.vector), embedding.tokens))
        return results
