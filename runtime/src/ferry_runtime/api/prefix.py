"""Paths behind a proxy that serves this server under a prefix and leaves the prefix in."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class PathPrefix:
    """ASGI middleware: takes the prefix off paths that have it, and leaves others as they are, since
    probes and proxies that strip it come without."""

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        """``prefix`` begins with a slash and does not end with one; empty does nothing."""
        self._app = app
        self._prefix = prefix
        self._raw = prefix.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._prefix and scope["type"] == "http" and scope["path"].startswith(f"{self._prefix}/"):
            raw: bytes = scope.get("raw_path") or b""
            scope = {
                **scope,
                "path": scope["path"].removeprefix(self._prefix),
                "raw_path": raw.removeprefix(self._raw),
            }
        await self._app(scope, receive, send)
