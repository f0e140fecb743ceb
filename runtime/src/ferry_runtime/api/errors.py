"""Errors in OpenAI's shape: ``{"error": {message, type, param, code}}`` with the right status.

Sources: https://platform.openai.com/docs/guides/error-codes and, for headers, the official clients,
which retry 408/409/429/5xx unless ``x-should-retry`` says otherwise and honour ``retry-after``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ferry_runtime.errors import (
    CannotFit,
    ChatTemplateFailed,
    DeadlineExceeded,
    EngineDied,
    EngineNotReady,
    FerryError,
    InvalidRequest,
    NotCached,
    Overloaded,
    RequestFailed,
)

INVALID_REQUEST = "invalid_request_error"
SERVER_ERROR = "server_error"

# How long a client waits before it asks again for an engine that is loading or restarting, seconds.
NOT_READY_RETRY_AFTER = 5
_NEVER_RETRY = {"x-should-retry": "false"}


class ClientDisconnected(Exception):
    """The client has left: there is nobody to answer. Not a FerryError, so nobody answers it."""


class Refusal(FerryError):
    """A refusal that only HTTP knows: wrong path, method, key, media type or size."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = dict(headers or {})


class ErrorDetail(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetail


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    status: int
    detail: ErrorDetail
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(ErrorBody(self.detail))

    def response(self) -> Response:
        return Response(self.body, self.status, dict(self.headers), media_type="application/json")


def error_answer(error: Exception) -> ErrorAnswer:
    """What a client is told. Only messages written for users get out, never a library's."""
    match error:
        case InvalidRequest():
            return _answer(400, str(error), INVALID_REQUEST, error.code, param=error.param)
        case Refusal():
            kind = INVALID_REQUEST if error.status < 500 else SERVER_ERROR
            return _answer(error.status, str(error), kind, error.code, param=error.param, **error.headers)
        case Overloaded():
            return _overloaded(error)
        case EngineNotReady():
            return _answer(503, str(error), SERVER_ERROR, "engine_not_ready", **_retry_soon())
        case EngineDied():
            message = "The engine stopped while this request was open and is being restarted. Send it again."
            return _answer(503, message, SERVER_ERROR, "engine_died", **_retry_soon())
        case DeadlineExceeded():
            return _answer(504, str(error), "timeout_error", "deadline_exceeded", **_NEVER_RETRY)
        case NotCached():
            return _answer(504, str(error), SERVER_ERROR, "not_cached", **_NEVER_RETRY)
        case CannotFit():
            message = "The engine has too little memory for a prompt and an answer of this length."
            return _answer(400, message, INVALID_REQUEST, "context_length_exceeded")
        case RequestFailed():
            return _answer(500, "The engine failed on this request alone.", SERVER_ERROR, "request_failed")
        case ChatTemplateFailed():
            return _answer(500, str(error), SERVER_ERROR, "chat_template_failed")
        case HTTPException():
            return _of_framework(error)
        case _:
            message = "The server failed on this request; its log names the cause under the x-request-id."
            return _answer(500, message, SERVER_ERROR, "internal_error")


def _overloaded(error: Overloaded) -> ErrorAnswer:
    """Too much from one tenant, or too much for the server."""
    wait = str(max(1, math.ceil(error.retry_after)))
    if error.per_tenant:
        kind, code = "rate_limit_error", "rate_limit_exceeded"
        return _answer(429, str(error), kind, code, **{"retry-after": wait})
    return _answer(503, str(error), SERVER_ERROR, "overloaded", **{"retry-after": wait})


def _of_framework(error: HTTPException) -> ErrorAnswer:
    """Starlette's own refusals: no such path, wrong method. Its detail texts are not repeated."""
    headers = dict(error.headers or {})
    if error.status_code == 404:
        return _answer(404, "Unknown URL: nothing is served at this path.", INVALID_REQUEST, "unknown_url")
    if error.status_code == 405:
        message = "This method is not allowed here; the Allow header lists those that are."
        return _answer(405, message, INVALID_REQUEST, "method_not_allowed", **headers)
    kind = INVALID_REQUEST if error.status_code < 500 else SERVER_ERROR
    return _answer(error.status_code, "The request was refused.", kind, None, **headers)


def _retry_soon() -> dict[str, str]:
    return {"retry-after": str(NOT_READY_RETRY_AFTER)}


def _answer(
    status: int, message: str, kind: str, code: str | None, *, param: str | None = None, **headers: str
) -> ErrorAnswer:
    return ErrorAnswer(status, ErrorDetail(message, kind, param, code), headers)
