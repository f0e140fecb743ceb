"""Swagger UI at /docs, with its script and style served from here: clusters often reach no CDN."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import FileResponse

from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.services import Services

_FOLDER = Path(str(files("fastapi_offline"))) / "static"
_HEADERS = {"cache-control": "public, max-age=86400"}


def docs_router(_services: Services, _documented: Documented) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    async def docs() -> Response:
        # Relative addresses also hold behind a proxy that serves this under a prefix.
        return get_swagger_ui_html(
            openapi_url="openapi.json",
            title="Ferry",
            swagger_js_url="docs/swagger-ui.js",
            swagger_css_url="docs/swagger-ui.css",
            swagger_favicon_url="data:,",
        )

    @router.get("/docs/swagger-ui.js")
    async def script() -> Response:
        return FileResponse(_FOLDER / "swagger-ui-bundle.js", media_type="text/javascript", headers=_HEADERS)

    @router.get("/docs/swagger-ui.css")
    async def style() -> Response:
        return FileResponse(_FOLDER / "swagger-ui.css", media_type="text/css", headers=_HEADERS)

    return router
