"""The OpenAPI document: request bodies from pydantic, answers from msgspec, errors everywhere.

FastAPI is kept from reading bodies itself, so that sizes, nulls and errors are handled in one
place; this module puts back into the document what FastAPI can therefore not see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from ferry_runtime.api.errors import ErrorBody
from ferry_runtime.api.schemas.base import Body

_REF = "#/components/schemas/"

_ERRORS = {
    400: "The request is wrong; the message says where.",
    401: "No valid API key.",
    403: "The API key is not an admin's.",
    404: "No such model or path.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is compressed.",
    429: "The queue is full; see Retry-After.",
    500: "The engine failed on this request.",
    503: "No engine is ready; see Retry-After.",
    504: "The deadline passed.",
}
_GET_ERRORS = (401, 403, 503)


class Documented:
    """Collects what the routes take and give while they are declared."""

    def __init__(self) -> None:
        self._bodies: list[type[Body]] = []
        self._answers: list[type[msgspec.Struct]] = [ErrorBody]

    def post(
        self, body: type[Body], answer: type[msgspec.Struct], *, stream: type[msgspec.Struct] | None = None
    ) -> dict[str, Any]:
        """Keyword arguments for ``APIRouter.post``."""
        self._bodies.append(body)
        content = {"application/json": {"schema": self._ref(answer)}}
        if stream is not None:
            self._ref(stream)
            content["text/event-stream"] = {"schema": {"type": "string"}}
        schema = {"schema": {"$ref": _REF + body.__name__}}
        return {
            "response_model": None,
            "responses": {200: {"description": "Done.", "content": content}, **self._failures(_ERRORS)},
            "openapi_extra": {"requestBody": {"required": True, "content": {"application/json": schema}}},
        }

    def get(
        self, answer: type[msgspec.Struct] | None = None, *, errors: Sequence[int] = ()
    ) -> dict[str, Any]:
        """Keyword arguments for ``APIRouter.get``; without ``answer`` the response is text."""
        content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
        if answer is not None:
            content = {"application/json": {"schema": self._ref(answer)}}
        return {
            "response_model": None,
            "responses": {
                200: {"description": "Done.", "content": content},
                **self._failures((*_GET_ERRORS, *errors)),
            },
        }

    def install(self, app: FastAPI) -> None:
        app.openapi = self._document(app)  # type: ignore[method-assign]

    def _ref(self, answer: type[msgspec.Struct]) -> dict[str, str]:
        if answer not in self._answers:
            self._answers.append(answer)
        return {"$ref": _REF + answer.__name__}

    def _failures(self, statuses: Sequence[int] | dict[int, str]) -> dict[int, dict[str, Any]]:
        content = {"application/json": {"schema": {"$ref": _REF + ErrorBody.__name__}}}
        return {status: {"description": _ERRORS[status], "content": content} for status in statuses}

    def _document(self, app: FastAPI) -> Callable[[], dict[str, Any]]:
        def openapi() -> dict[str, Any]:
            if app.openapi_schema is None:
                document = get_openapi(
                    title=app.title, version=app.version, description=app.description, routes=app.routes
                )
                components = document.setdefault("components", {})
                components["schemas"] = {**components.get("schemas", {}), **self._schemas()}
                components["securitySchemes"] = {"apiKey": {"type": "http", "scheme": "bearer"}}
                document["security"] = [{"apiKey": []}]
                app.openapi_schema = document
            return app.openapi_schema

        return openapi

    def _schemas(self) -> dict[str, Any]:
        _, bodies = models_json_schema(
            [(body, "validation") for body in self._bodies], ref_template=_REF + "{model}"
        )
        _, answers = msgspec.json.schema_components(self._answers, ref_template=_REF + "{name}")
        return {**answers, **bodies.get("$defs", {})}
