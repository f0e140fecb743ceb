"""/metrics in two forms, and /recent-requests."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from prometheus_client.exposition import choose_encoder

from ferry_runtime.api.auth.guard import require_admin
from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.recent import RecentRequestList
from ferry_runtime.api.replies import json_response
from ferry_runtime.api.services import Services


def metrics_router(services: Services, documented: Documented) -> APIRouter:
    router = APIRouter(tags=["Operations"])

    @router.get("/metrics", **documented.get())
    async def metrics(request: Request) -> Response:
        """For Prometheus; with 'Accept: application/json' totals for people, which need an admin."""
        accept = request.headers.get("accept", "")
        if "application/json" in accept:
            require_admin(request)
            return json_response(services.summary.snapshot(services.batch_size()))
        encode, content_type = choose_encoder(accept)
        return Response(encode(services.registry), headers={"content-type": content_type})

    @router.get("/recent-requests", **documented.get(RecentRequestList, errors=(400,)))
    async def recent_requests(limit: Annotated[int, Query(ge=1, le=9999)] = 100) -> Response:
        """The latest requests, newest first."""
        return json_response(RecentRequestList(services.recent.latest(limit)))

    return router
