"""What the server knows about one HTTP request besides its bytes, from the first byte to the log line."""

from __future__ import annotations

import time
import uuid
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from ferry_runtime.api.auth.principal import NOBODY, Principal
from ferry_runtime.api.routing import RouteMatch

if TYPE_CHECKING:
    from ferry_runtime.tracing.spans import Served

SCOPE_KEY = "ferry.context"


@dataclass(slots=True)
class RequestContext:
    """``started`` is time.monotonic().

    Ids are minted here: what a client sends as an id is never looked at.
    """

    match: RouteMatch
    digits: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.monotonic)
    principal: Principal = NOBODY
    status: int = 0  # 0: nothing was answered
    trace: Served | None = None  # its span, where it is traced
    body_bytes: int = 0  # of the request, as far as it was read
    extra: dict[str, Any] = field(default_factory=dict)  # for the log line: counts and names, no text

    @property
    def route(self) -> str:
        """The route's template, or ``unmatched``."""
        return self.match.template

    @property
    def id(self) -> str:
        """Of the request, in its X-Request-Id and in every log line."""
        return self.answer_id("req")

    def answer_id(self, kind: str) -> str:
        """``chatcmpl-3f2a…``: the same digits as the request's own id, so that logs can be found."""
        return f"{kind}-{self.digits}"


def context_of(request: Request) -> RequestContext:
    return from_scope(request.scope)


def from_scope(scope: MutableMapping[str, Any]) -> RequestContext:
    context = scope[SCOPE_KEY]
    assert isinstance(context, RequestContext)  # noqa: S101
    return context
