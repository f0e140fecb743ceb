"""POST /v1/embeddings."""

from __future__ import annotations

import array
import base64
import sys
from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from ferry_runtime.api.body import read_body
from ferry_runtime.api.disconnect import while_connected
from ferry_runtime.api.errors import Refusal
from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.replies import json_response
from ferry_runtime.api.schemas.answers import Embedding, EmbeddingList, EmbeddingUsage
from ferry_runtime.api.schemas.embeddings import EmbeddingsBody
from ferry_runtime.api.services import Embedder, Services
from ferry_runtime.errors import InvalidRequest


def embeddings_router(services: Services, documented: Documented) -> APIRouter:
    router = APIRouter(tags=["OpenAI"])

    @router.post("/v1/embeddings", **documented.post(EmbeddingsBody, EmbeddingList))
    async def create_embeddings(request: Request) -> Response:
        """Unit vectors of texts, as numbers or as base64 of little-endian 32-bit floats."""
        body = await read_body(request, EmbeddingsBody, services.body)
        embedder = _embedder(services, body.model)
        texts = _texts(body, embedder)
        results = await while_connected(request.receive, _embed(embedder, texts))
        tokens = sum(count for _, count in results)
        base64_wanted = body.encoding_format == "base64"
        return json_response(
            EmbeddingList(
                data=[
                    Embedding(index=index, embedding=_base64(vector) if base64_wanted else list(vector))
                    for index, (vector, _) in enumerate(results)
                ],
                model=embedder.name,
                usage=EmbeddingUsage(tokens, tokens),
            )
        )

    return router


async def _embed(embedder: Embedder, texts: Sequence[str]) -> Sequence[tuple[Sequence[float], int]]:
    return await embedder.embed(texts)


def _embedder(services: Services, model: str) -> Embedder:
    embedder = services.embedder
    if embedder is None:
        raise Refusal(404, "This service embeds no texts.", code="model_not_found", param="model")
    if model not in (embedder.name, services.model_name):
        raise Refusal(
            404,
            f"The model '{model[:100]}' does not exist. Texts are embedded by '{embedder.name}'.",
            code="model_not_found",
            param="model",
        )
    return embedder


def _texts(body: EmbeddingsBody, embedder: Embedder) -> list[str]:
    texts = []
    for item in body.input:
        if not isinstance(item, str):
            raise InvalidRequest(
                "input must be texts: token ids are not supported by this embedder.", param="input"
            )
        if not item:
            raise InvalidRequest("input must not hold an empty text.", param="input")
        texts.append(item)
    if body.dimensions not in (None, embedder.dimensions):
        raise InvalidRequest(
            f"dimensions must be {embedder.dimensions} or omitted: this embedder has no other.",
            param="dimensions",
        )
    return texts


def _base64(vector: Sequence[float]) -> str:
    floats = array.array("f", vector)
    if sys.byteorder == "big":
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode()
