"""Probes, /health and /version."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from fastapi import APIRouter, Response

from ferry_runtime.api.errors import NOT_READY_RETRY_AFTER, Refusal
from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.replies import json_response
from ferry_runtime.api.schemas.answers import Version
from ferry_runtime.api.services import Services
from ferry_runtime.api.version import VERSION
from ferry_runtime.errors import EngineNotReady

_PROBE_METHODS = ["GET", "HEAD"]


class EngineHealth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is loaded, once something is."""

    state: str
    family: str | None = None
    device: str | None = None
    dtype: str | None = None
    numerics: str | None = None
    context_length: int | None = None
    slots: int | None = None
    running: int | None = None
    kv_blocks: int | None = None
    kv_blocks_used: int | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """``generation`` is the manifest's, of the configuration that applies now; ``config_problem`` says
    why newer content is not applied."""

    state: str
    ready: bool
    reason: str
    model: str
    engine: EngineHealth
    store: dict[str, Any]
    generation: int
    config_problem: str | None
    uptime_seconds: float
    version: str


def health_router(services: Services, documented: Documented) -> APIRouter:
    router = APIRouter(tags=["Operations"])
    started = time.monotonic()

    @router.api_route("/livez", methods=_PROBE_METHODS, include_in_schema=False)
    async def livez() -> Response:
        if services.lifecycle.live:
            return Response("ok", media_type="text/plain")
        raise Refusal(503, services.lifecycle.reason or "Not live.", code="not_live")

    @router.api_route("/readyz", methods=_PROBE_METHODS, include_in_schema=False)
    async def readyz() -> Response:
        if services.lifecycle.ready:
            return Response("ok", media_type="text/plain")
        raise Refusal(
            503,
            services.lifecycle.reason or "Not ready.",
            code="not_ready",
            headers={"retry-after": str(NOT_READY_RETRY_AFTER)},
        )

    @router.get("/health", **documented.get(Health))
    async def health() -> Response:
        """Where this process stands. Always 200 while it can answer: probes ask /readyz."""
        lifecycle, config = services.lifecycle, services.config()
        return json_response(
            Health(
                state=lifecycle.phase,
                ready=lifecycle.ready,
                reason=lifecycle.reason,
                model=config.cold.model.served_name,
                engine=engine_health(services),
                store=dict(services.store_status()),
                generation=config.generation,
                config_problem=services.config_problem(),
                uptime_seconds=round(time.monotonic() - started, 3),
                version=VERSION,
            )
        )

    @router.get("/version", **documented.get(Version))
    async def version() -> Response:
        """The version of Ferry."""
        return json_response(Version(VERSION))

    return router


def engine_health(services: Services) -> EngineHealth:
    backend = services.backend
    try:
        info = backend.info
    except EngineNotReady:
        return EngineHealth(state=backend.state.value)
    stats = backend.stats
    return EngineHealth(
        state=backend.state.value,
        family=info.family,
        device=info.device,
        dtype=info.dtype,
        numerics=info.numerics,
        context_length=info.context_length,
        slots=info.slots,
        running=stats.running,
        kv_blocks=info.kv_blocks,
        kv_blocks_used=stats.kv_blocks_used,
    )
