"""The guard in front of the router: deny by default, for every protocol and path."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from ferry_runtime.api.auth.access import Access, access_to
from ferry_runtime.api.auth.policy import AuthPolicy
from ferry_runtime.api.auth.principal import Principal
from ferry_runtime.api.context import context_of, from_scope
from ferry_runtime.api.errors import Refusal

_CHALLENGE = {"www-authenticate": "Bearer"}


class Guard:
    """ASGI middleware. Every request gets its principal here, before any body is read."""

    def __init__(self, app: ASGIApp, *, policy: AuthPolicy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # No route speaks WebSocket: close before accepting, which servers answer with 403.
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        context = from_scope(scope)
        match = context.match
        access = access_to(scope["method"], match.template if match.served else None)
        headers = [value for name, value in scope["headers"] if name == b"authorization"]
        principal = self._policy.authenticate(headers)
        if access is not Access.OPEN:
            _check(principal, access)
        if principal is not None:
            context.principal = principal
        await self._app(scope, receive, send)


def _check(principal: Principal | None, access: Access) -> None:
    if principal is None:
        raise Refusal(
            401,
            "A valid API key is needed: send it as 'Authorization: Bearer <key>'.",
            code="invalid_api_key",
            headers=_CHALLENGE,
        )
    if access is Access.KEY or principal.admin:
        return
    if principal.key_id is None:
        whose = "An admin's" if access is Access.ADMIN else "An"
        raise Refusal(
            401,
            f"{whose} API key is needed here: send it as 'Authorization: Bearer <key>'.",
            code="invalid_api_key",
            headers=_CHALLENGE,
        )
    if access is Access.OWN:
        return
    raise Refusal(403, "This needs an admin's API key.", code="insufficient_permissions")


def require_admin(request: Request) -> None:
    """For a route that is open in one form only. Raises Refusal 401 or 403."""
    principal = context_of(request).principal
    _check(principal, Access.ADMIN)
