"""Runs a generation for a client and answers it, whole or as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ferry_runtime.api.account import Account
from ferry_runtime.api.answers import Choice, Generation
from ferry_runtime.api.context import context_of, from_scope
from ferry_runtime.api.disconnect import while_connected
from ferry_runtime.api.errors import ClientDisconnected, error_answer
from ferry_runtime.api.failures import log_failure
from ferry_runtime.api.offload import off_loop
from ferry_runtime.api.schemas.answers import Usage
from ferry_runtime.api.services import Services
from ferry_runtime.errors import RequestFailed
from ferry_runtime.generation import CacheInfo, CacheOutcome, ChoiceDelta, GenerationRequest

DONE = b"data: [DONE]\n\n"

_ALTERNATIVE_BYTES = 50  # about, of one alternative in JSON

_NO_CACHE = CacheInfo()
_NO_ANSWER = "The engine ended without an answer."
# RFC 9211, section 2: either hit, or why the request went further.
_CACHE_STATUS = {
    CacheOutcome.EXACT: "ferry; hit; detail=exact",
    CacheOutcome.SEMANTIC: "ferry; hit; detail=semantic",
    CacheOutcome.COALESCED: "ferry; fwd=miss; collapsed",
    CacheOutcome.MISS: "ferry; fwd=miss",
    CacheOutcome.BYPASS: "ferry; fwd=bypass",
}
_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


class Renderer(Protocol):
    """One route's shapes. The stream's methods give whole server-sent events."""

    def whole(self, choices: Sequence[Choice], usage: Usage) -> msgspec.Struct: ...

    def opening(self, choices: int, /) -> bytes: ...

    def delta(self, item: ChoiceDelta) -> bytes: ...

    def usage(self, usage: Usage) -> bytes: ...


def json_response(body: msgspec.Struct, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), 200, dict(headers or {}), media_type="application/json")


async def whole_response(
    renderer: Renderer, choices: Sequence[Choice], usage: Usage, headers: Mapping[str, str]
) -> Response:
    """The answer in one piece. Log-probabilities multiply its size: many are rendered off the loop."""

    def render() -> bytes:
        return msgspec.json.encode(renderer.whole(choices, usage))

    body = await off_loop(_ALTERNATIVE_BYTES * sum(map(_alternatives, choices)), render)
    return Response(body, 200, dict(headers), media_type="application/json")


def _alternatives(choice: Choice) -> int:
    return sum(
        len(entries) * (1 + len(entries[-1].top))
        for entries in (choice.prompt_logprobs, choice.logprobs)
        if entries
    )


def event(body: msgspec.Struct) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


async def generate(
    services: Services, request: Request, requests: Sequence[GenerationRequest]
) -> tuple[Generation, Account]:
    """To the end, for an answer in one piece. The caller closes the account as succeeded."""
    account = Account(services, context_of(request), requests, stream=False)
    generation: Generation | None = None

    async def work() -> Generation:
        nonlocal generation
        generation = await Generation.submit(services.pipeline, requests)
        try:
            async for item in generation:
                generation.choices[item.index].add(item.delta)
        finally:
            await generation.aclose()
        _check_finished(generation)
        return generation

    try:
        return await while_connected(request.receive, work()), account
    except BaseException as error:
        cache, tokens = (generation.cache, generation.output_tokens) if generation else (_NO_CACHE, 0)
        account.ended_by(error, cache, tokens)
        raise


async def stream(
    services: Services,
    request: Request,
    requests: Sequence[GenerationRequest],
    renderer: Renderer,
    *,
    include_usage: bool,
    headers: Mapping[str, str],
) -> Response:
    """Waits for the first delta before anything is sent, so that a refusal keeps its status code."""
    account = Account(services, context_of(request), requests, stream=True)

    async def begin() -> tuple[Generation, ChoiceDelta]:
        generation = await Generation.submit(services.pipeline, requests)
        try:
            return generation, await anext(aiter(generation))
        except StopAsyncIteration:
            await generation.aclose()
            raise RequestFailed(_NO_ANSWER) from None
        except BaseException:
            await generation.aclose()
            raise

    try:
        generation, first = await while_connected(request.receive, begin())
    except BaseException as error:
        account.ended_by(error, _NO_CACHE, 0)
        raise
    merged = {**_STREAM_HEADERS, **cache_headers(generation.cache), **headers}
    return EventStream(
        generation, first, renderer, account, merged,
        include_usage=include_usage, write_timeout=services.write_timeout_seconds,
    )  # fmt: skip


class EventStream(Response):
    """The rest of a generation as server-sent events.

    A failure becomes one error event without [DONE], so that no client takes it for an end. A
    client that leaves, or reads nothing for ``write_timeout`` seconds, cancels the generation.
    """

    def __init__(
        self,
        generation: Generation,
        first: ChoiceDelta,
        renderer: Renderer,
        account: Account,
        headers: Mapping[str, str],
        *,
        include_usage: bool,
        write_timeout: float,
    ) -> None:
        super().__init__(None, 200, dict(headers), media_type="text/event-stream")
        del self.headers["content-length"]
        self._generation = generation
        self._first = first
        self._renderer = renderer
        self._account = account
        self._include_usage = include_usage
        self._write_timeout = write_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        generation, account = self._generation, self._account
        try:
            await while_connected(receive, self._write(send, from_scope(scope).id))
            account.succeeded(generation.cache, generation.output_tokens)
        except BaseException as error:
            account.ended_by(error, generation.cache, generation.output_tokens)
            raise
        finally:
            await generation.aclose()

    async def _write(self, send: Send, request_id: str) -> None:
        async def write(body: bytes, *, more: bool = True) -> None:
            try:
                async with asyncio.timeout(self._write_timeout):
                    await send({"type": "http.response.body", "body": body, "more_body": more})
            except TimeoutError:
                raise ClientDisconnected from None

        generation, renderer = self._generation, self._renderer
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            opening = renderer.opening(len(generation.choices))
            generation.choices[self._first.index].count(self._first.delta)
            await write(opening + renderer.delta(self._first))
            async for item in generation:
                generation.choices[item.index].count(item.delta)
                if body := renderer.delta(item):
                    await write(body)
            _check_finished(generation)
        except ClientDisconnected:
            raise
        except Exception as error:  # noqa: BLE001 (it becomes an event; the status is sent)
            self._account.ended_by(error, generation.cache, generation.output_tokens)
            log_failure(request_id, error)
            await write(b"data: " + error_answer(error).body + b"\n\n", more=False)
            return
        usage = renderer.usage(generation.usage) if self._include_usage else b""
        await write(usage + DONE, more=False)


def cache_headers(cache: CacheInfo) -> dict[str, str]:
    headers = {"x-ferry-cache": cache.outcome.value, "cache-status": _CACHE_STATUS[cache.outcome]}
    if cache.similarity is not None:
        headers["x-ferry-cache-similarity"] = f"{cache.similarity:.4f}"
    if cache.entry_id is not None:
        headers["x-ferry-cache-entry"] = cache.entry_id
    if cache.age_seconds is not None:
        headers["age"] = str(max(0, int(cache.age_seconds)))
    return headers


def _check_finished(generation: Generation) -> None:
    """A backend that stops without a reason must not look like a whole answer."""
    if any(choice.finish_reason is None for choice in generation.choices):
        raise RequestFailed(_NO_ANSWER)
