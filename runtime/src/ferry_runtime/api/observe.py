"""The outermost ASGI layer: ids, metrics, the log line, and an answer to everything that fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ferry_runtime.api.context import SCOPE_KEY, RequestContext
from ferry_runtime.api.errors import ClientDisconnected, error_answer
from ferry_runtime.api.failures import log_failure
from ferry_runtime.api.httpmetrics import HttpMetrics
from ferry_runtime.api.memory import LARGE_BODY, Trimmer
from ferry_runtime.api.routing import RouteTable
from ferry_runtime.logs import bind_request

if TYPE_CHECKING:
    from ferry_runtime.tracing.spans import Tracing

logger = logging.getLogger(__name__)

_PROBES = frozenset({"/livez", "/readyz", "/metrics"})


class Observe:
    """Pure ASGI on purpose: Starlette's BaseHTTPMiddleware would hide disconnects from the routes."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        routes: RouteTable,
        metrics: HttpMetrics,
        draining: Callable[[], bool],
        tracing: Tracing | None = None,
    ) -> None:
        self._app = app
        self._routes = routes
        self._metrics = metrics
        self._draining = draining
        self._tracing = tracing
        self._trimmer = Trimmer()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = RequestContext(self._routes.match(scope))
        scope[SCOPE_KEY] = context
        if self._tracing is None or context.route in _PROBES:
            await self._serve(context, scope, receive, send)
            return
        with self._tracing.serving(scope["method"], context.route, scope["headers"]) as served:
            context.trace, context.extra["trace_id"] = served, served.trace_id
            try:
                await self._serve(context, scope, receive, send)
            finally:
                served.ended(context.id, context.status, context.extra.get("outcome"))

    async def _serve(self, context: RequestContext, scope: Scope, receive: Receive, send: Send) -> None:
        self._metrics.opened()

        async def observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                context.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *self._headers(context)]}
            await send(message)

        try:
            with bind_request(context.id):
                await self._app(scope, receive, observed)
        except ClientDisconnected:
            context.extra.setdefault("outcome", "cancelled")
        except Exception as error:  # noqa: BLE001 (the last place that can still answer)
            await self._answer(error, context, scope, receive, observed)
        finally:
            self._finish(context, scope["method"])

    def _headers(self, context: RequestContext) -> list[tuple[bytes, bytes]]:
        headers = [(b"x-request-id", context.id.encode())]
        if context.trace is not None:
            headers.append((b"traceresponse", context.trace.header))
        if self._draining():
            headers.append((b"connection", b"close"))
        return headers

    async def _answer(
        self, error: Exception, context: RequestContext, scope: Scope, receive: Receive, send: Send
    ) -> None:
        answer = error_answer(error)
        log_failure(context.id, error)
        context.extra.setdefault("outcome", answer.detail.code or answer.detail.type)
        # Past the first byte nothing can be said any more: the server cuts the connection.
        if not context.status:
            await answer.response()(scope, receive, send)

    def _finish(self, context: RequestContext, method: str) -> None:
        seconds = time.monotonic() - context.started
        self._metrics.closed(context.route, method, context.status, seconds)
        if context.body_bytes > LARGE_BODY:
            self._trimmer.soon()
        level = logging.DEBUG if context.route in _PROBES else logging.INFO
        if logger.isEnabledFor(level):
            fields = {"route": context.route, "method": method, "status": context.status}
            logger.log(
                level,
                "request",
                extra={
                    "request_id": context.id,
                    **fields,
                    "duration_ms": round(seconds * 1000, 3),
                    **context.extra,
                },
            )
