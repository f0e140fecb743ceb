"""Looking into the cache and clearing it; see `ferry_runtime.cache.control`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from ferry_runtime.api.body import read_body
from ferry_runtime.api.context import context_of
from ferry_runtime.api.errors import NOT_READY_RETRY_AFTER, Refusal
from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.schemas.base import Body, Text
from ferry_runtime.api.services import Services
from ferry_runtime.cache.control import CacheControl, Caller, EntryNotFound
from ferry_runtime.errors import StoreUnavailable


class FeedbackBody(Body):
    entry: Text
    verdict: Text  # good or wrong


class Cleared(msgspec.Struct, frozen=True):
    """How many entries are gone."""

    cleared: int


class Accepted(msgspec.Struct, frozen=True):
    entry: str
    verdict: str


class CacheStats(msgspec.Struct, frozen=True):
    """Counts of one replica; the fields are those of `CacheControl.stats`."""


class CacheEntry(msgspec.Struct, frozen=True):
    """One stored answer; the fields are those of `CacheControl.entry`."""


def cache_router(services: Services, documented: Documented) -> APIRouter:
    router = APIRouter(tags=["Cache"])

    @router.get("/cache/stats", **documented.get(CacheStats, errors=(404,)))
    async def cache_stats() -> Response:
        """Entries, lookups and the store's state. Counts only."""
        return _json(_control(services).stats())

    @router.get("/cache/entries/{entry}", **documented.get(CacheEntry, errors=(404,)))
    async def cache_entry(request: Request, entry: str) -> Response:
        """A stored answer, for its own tenant and for admins."""
        with _orders():
            return _json(await _control(services).entry(entry, _caller(request)))

    @router.delete("/cache/entries/{entry}", **documented.get(Cleared, errors=(404,)))
    async def delete_cache_entry(request: Request, entry: str) -> Response:
        """Evicts a stored answer on every replica, for its own tenant and for admins."""
        with _orders():
            await _control(services).delete_entry(entry, _caller(request))
        return _json(Cleared(1))

    @router.delete("/cache", **documented.get(Cleared, errors=(404,)))
    async def delete_cache(request: Request, tenant: str | None = None, model: str | None = None) -> Response:
        """Evicts what a tenant, a model, or both have stored; without either, everything."""
        with _orders():
            gone = await _control(services).delete(_caller(request), tenant=tenant, model=model)
        return _json(Cleared(gone))

    @router.post("/clear-cache", **documented.get(Cleared, errors=(404,)))
    async def clear_cache(request: Request) -> Response:
        """Evicts every entry of this service, and nothing else that the store holds."""
        with _orders():
            return _json(Cleared(await _control(services).clear(_caller(request))))

    @router.post("/cache/feedback", **documented.post(FeedbackBody, Accepted))
    async def cache_feedback(request: Request) -> Response:
        """Says whether a cached answer was right; a wrong one is evicted everywhere."""
        body = await read_body(request, FeedbackBody, services.body)
        with _orders():
            await _control(services).feedback(body.entry, body.verdict, _caller(request))
        return _json(Accepted(body.entry, body.verdict))

    return router


def _control(services: Services) -> CacheControl:
    control = services.cache()
    if control is None:
        waiting = services.store_status().get("state") == "waiting"
        why = "the Secret with its store's address is missing" if waiting else "the service is starting"
        raise Refusal(
            503,
            f"The cache is not there yet: {why}. Nothing is cached until then.",
            code="cache_not_ready",
            headers={"retry-after": str(NOT_READY_RETRY_AFTER)},
        )
    return control


def _caller(request: Request) -> Caller:
    principal = context_of(request).principal
    return Caller(principal.tenant, admin=principal.admin)


@contextmanager
def _orders() -> Iterator[None]:
    """The control's own refusals, as HTTP has them."""
    try:
        yield
    except EntryNotFound as error:
        raise Refusal(404, str(error), code="entry_not_found", param=error.param) from None
    except StoreUnavailable as error:
        raise Refusal(
            503,
            str(error),
            code="store_unavailable",
            headers={"retry-after": str(NOT_READY_RETRY_AFTER)},
        ) from None


def _json(body: msgspec.Struct | dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
