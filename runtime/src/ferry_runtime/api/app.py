"""The FastAPI application: routes, and the two layers in front of them."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ferry_runtime.api.auth.guard import Guard
from ferry_runtime.api.errors import error_answer
from ferry_runtime.api.httpmetrics import HttpMetrics
from ferry_runtime.api.observe import Observe
from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.prefix import PathPrefix
from ferry_runtime.api.routes.cache import cache_router
from ferry_runtime.api.routes.chat import chat_router
from ferry_runtime.api.routes.completions import completions_router
from ferry_runtime.api.routes.dashboard import dashboard_router
from ferry_runtime.api.routes.docs import docs_router
from ferry_runtime.api.routes.embeddings import embeddings_router
from ferry_runtime.api.routes.generate import generate_router
from ferry_runtime.api.routes.health import health_router
from ferry_runtime.api.routes.metrics import metrics_router
from ferry_runtime.api.routes.models import models_router
from ferry_runtime.api.routes.tokenize import tokenize_router
from ferry_runtime.api.routing import RouteTable
from ferry_runtime.api.schemas.base import invalid
from ferry_runtime.api.services import Services
from ferry_runtime.api.version import VERSION

RouterFactory = Callable[[Services, Documented], APIRouter]

ROUTERS: tuple[RouterFactory, ...] = (
    models_router,
    chat_router,
    completions_router,
    embeddings_router,
    generate_router,
    tokenize_router,
    health_router,
    metrics_router,
    cache_router,
    docs_router,
    dashboard_router,
)


def create_app(services: Services) -> FastAPI:
    """Needs no model yet: until there is one, generating routes answer 503 with Retry-After."""
    app = FastAPI(
        title="Ferry",
        version=VERSION,
        description="Batched and cached LLM inference with an OpenAI-compatible API.",
        docs_url=None,  # FastAPI's own page loads its script from a CDN
        redoc_url=None,
        # A redirect for a trailing slash would answer before the guard knows the route.
        redirect_slashes=False,
    )
    documented = Documented()
    routers = [make(services, documented) for make in ROUTERS]
    for router in (*routers, *services.routers):
        # Flat, so that the guard and the metrics see every route under its own template.
        app.router.routes.extend(router.routes)
    documented.install(app)
    routes = RouteTable(app.router.routes)
    routes.check()
    app.add_exception_handler(HTTPException, _answer)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_middleware(Guard, policy=services.auth)
    app.add_middleware(
        Observe,
        routes=routes,
        metrics=HttpMetrics(services.registry, lambda: services.lifecycle.ready),
        draining=lambda: services.lifecycle.draining,
        tracing=services.tracing,
    )
    # Added last, so it is the outermost: whoever reads a path reads it without the prefix.
    app.add_middleware(PathPrefix, prefix=services.path_prefix)
    return app


async def _answer(_: Request, error: Exception) -> Response:
    return error_answer(error).response()


async def _invalid(_: Request, error: Exception) -> Response:
    """A path or query parameter. FastAPI would echo the input, which need not be serialisable."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    return error_answer(invalid(error.errors()[0], skip=1)).response()
