"""GET /v1/models and /v1/models/{model}."""

from __future__ import annotations

import time

from fastapi import APIRouter, Response

from ferry_runtime.api.errors import Refusal
from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.replies import json_response
from ferry_runtime.api.schemas.answers import Model, ModelList
from ferry_runtime.api.services import Services
from ferry_runtime.errors import EngineNotReady


def models_router(services: Services, documented: Documented) -> APIRouter:
    router = APIRouter(tags=["OpenAI"])
    created = int(time.time())

    def served() -> list[Model]:
        try:
            length = services.backend.info.context_length
        except EngineNotReady:
            length = None
        models = [Model(id=services.model_name, created=created, max_model_len=length)]
        if services.embedder is not None and services.embedder.name != services.model_name:
            models.append(Model(id=services.embedder.name, created=created))
        return models

    @router.get("/v1/models", **documented.get(ModelList))
    async def list_models() -> Response:
        """The model that is served, and the one that embeds."""
        return json_response(ModelList(data=served()))

    # A served name may hold slashes, hence ":path".
    @router.get("/v1/models/{model:path}", **documented.get(Model, errors=(404,)))
    async def retrieve_model(model: str) -> Response:
        """One model by its name."""
        for known in served():
            if known.id == model:
                return json_response(known)
        raise Refusal(404, "There is no such model here.", code="model_not_found", param="model")

    return router
