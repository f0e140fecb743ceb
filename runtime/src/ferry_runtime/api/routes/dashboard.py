"""The dashboard: an open page, its numbers and its load test, which need an admin."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from ferry_runtime.api.body import read_body
from ferry_runtime.api.dashboard.assemble import Assembler
from ferry_runtime.api.dashboard.bundle import PAGE, BundleFile
from ferry_runtime.api.dashboard.document import Document
from ferry_runtime.api.dashboard.load import LoadBody, LoadReport, LoadTests
from ferry_runtime.api.errors import Refusal
from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.replies import json_response
from ferry_runtime.api.services import Services

# Nothing from elsewhere, nothing inline, no frame around it: the page is given an admin's key.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS = {
    "content-security-policy": _POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}
_ASSET_HEADERS = {
    "x-content-type-options": "nosniff",
    "cache-control": "public, max-age=31536000, immutable",  # their names hold a digest of their content
}
_MISSING = (
    "The dashboard is not part of this installation: its page has not been built.\n"
    "In a checkout, with Node 20.19 or later: make dashboard\n"
)


def dashboard_router(services: Services, documented: Documented) -> APIRouter:
    router = APIRouter(tags=["Dashboard"])
    assembler = Assembler(services)
    tests = LoadTests()

    @router.get("/dashboard/data", **documented.get(Document))
    async def dashboard_data() -> Response:
        """What this replica has done lately, as the dashboard shows it."""
        return json_response(assembler.document(), {"cache-control": "no-store"})

    @router.post("/dashboard/load", **documented.post(LoadBody, LoadReport))
    async def dashboard_load(request: Request) -> Response:
        """Runs a bounded load test in this replica and reports it as lines of JSON while it runs.
        It ends when the client leaves."""
        body = await read_body(request, LoadBody, services.body)
        return tests.begin(request, body)

    @router.api_route("/dashboard", methods=["GET", "HEAD"], include_in_schema=False)
    async def without_slash() -> Response:
        """The page's addresses are relative to /dashboard/; so is this one, for proxies with prefixes."""
        return Response(status_code=307, headers={"location": "dashboard/"})

    @router.api_route("/dashboard/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page(request: Request) -> Response:
        files = await asyncio.to_thread(lambda: services.bundle.files)
        if PAGE not in files:
            return Response(_MISSING, 404, media_type="text/plain")
        return _answer(request, files[PAGE], _PAGE_HEADERS)

    @router.api_route("/dashboard/assets/{name}", methods=["GET", "HEAD"], include_in_schema=False)
    async def asset(request: Request, name: str) -> Response:
        files = await asyncio.to_thread(lambda: services.bundle.files)
        found = files.get(f"assets/{name}")
        if found is None:
            raise Refusal(404, "The dashboard has no such file.", code="unknown_url")
        return _answer(request, found, _ASSET_HEADERS)

    return router


def _answer(request: Request, file: BundleFile, headers: dict[str, str]) -> Response:
    headers = {**headers, "etag": file.etag, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(file.zipped, headers=headers, media_type=file.media_type)
    return Response(file.body, headers=headers, media_type=file.media_type)
