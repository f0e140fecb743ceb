"""Reads a request's JSON body: bounded while it arrives, decoded off the event loop when large."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from ferry_runtime.api.context import context_of
from ferry_runtime.api.errors import ClientDisconnected, Refusal
from ferry_runtime.api.offload import off_loop
from ferry_runtime.api.schemas.base import Body, first_problem
from ferry_runtime.api.strictjson import decode
from ferry_runtime.errors import InvalidRequest

B = TypeVar("B", bound=Body)


@dataclass(frozen=True, slots=True)
class BodyLimits:
    size: int = 4 * 1024 * 1024  # bytes
    seconds: float = 60.0  # until all of it has arrived


async def read_body(request: Request, model: type[B], limits: BodyLimits) -> B:
    """Raises InvalidRequest, Refusal 408, 413 or 415, ClientDisconnected."""
    _check_headers(request, limits.size)
    try:
        async with asyncio.timeout(limits.seconds):
            body = await _read(request, limits.size)
    except TimeoutError:
        raise Refusal(
            408, f"The body did not arrive within {limits.seconds:g} seconds.",
            code="body_timeout", headers={"connection": "close"},
        ) from None  # fmt: skip
    context_of(request).body_bytes = len(body)
    return await off_loop(len(body), _parse, body, model)


def _check_headers(request: Request, limit: int) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise InvalidRequest(
            "The body must be JSON, sent with the header 'Content-Type: application/json'.",
            code="unsupported_content_type",
        )
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Refusal(
            415, "Compressed bodies are not accepted: send it without Content-Encoding.",
            code="unsupported_content_encoding", headers={"accept-encoding": "identity"},
        )  # fmt: skip
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdecimal() and int(length[:20]) > limit:
        raise _too_large(limit)


async def _read(request: Request, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
    except ClientDisconnect:
        raise ClientDisconnected from None
    return b"".join(chunks)


def _too_large(limit: int) -> Refusal:
    # Without "Connection: close": the server discards the rest of the body, and a client that
    # writes all of it before it reads still gets to see this answer.
    return Refusal(413, f"The body is larger than the limit of {limit} bytes.", code="body_too_large")


def _parse(body: bytes, model: type[B]) -> B:
    value: Any = decode(body)
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise first_problem(error) from None
