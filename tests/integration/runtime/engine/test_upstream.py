"""The upstream backend against a real server on loopback that behaves, and misbehaves, on request."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ferry_runtime.engine.protocol import EngineState, FinishReason, GenerateRequest, SamplingParams
from ferry_runtime.engine.upstream import UpstreamBackend, UpstreamModel
from ferry_runtime.errors import EngineDied, EngineLoadError, EngineNotReady, RequestFailed

WORDS = ["The", " ferry", " leaves", " at", " noon"]


@dataclass
class Upstream:
    """``bodies`` are the requests that came; the rest says what happens to them."""

    key: str | None = None
    takes_ids: bool = True
    status: int = 200
    cut_after: int | None = None  # chunks until the connection breaks
    error_after: int | None = None  # chunks until an error event
    choice: object = None  # sent in place of every choice
    hold: asyncio.Event | None = None  # waited for after the first chunk
    lists_models: bool = True
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    open: int = 0
    url: str = ""

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/completions", self._completions, methods=["POST"]),
            ]
        )

    async def _models(self, request: Request) -> Response:
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return JSONResponse({"error": {}}, 401)
        if not self.lists_models:
            return JSONResponse({}, 404)
        return JSONResponse({"data": [{"id": "big", "max_model_len": 100}, {"id": "small"}]})

    async def _completions(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        if self.status != 200:
            return JSONResponse({"error": {"message": "secret reason"}}, self.status)
        if not self.takes_ids and not isinstance(body["prompt"], str):
            return JSONResponse({"error": {"message": "prompt must be text"}}, 422)
        return StreamingResponse(self._events(body), media_type="text/event-stream")

    async def _events(self, body: dict[str, Any]) -> AsyncIterator[str]:
        self.open += 1
        try:
            count = min(body["max_tokens"], len(WORDS))
            for index, word in enumerate(WORDS[:count]):
                if index == self.cut_after:
                    raise ConnectionResetError
                if index == self.error_after:
                    yield _event({"error": {"message": "out of memory"}})
                    return
                if self.choice is not None:
                    yield f'data: {{"error": null, "choices": [{self.choice}]}}\n\n'
                    continue
                finish = ("stop" if count == len(WORDS) else "length") if index == count - 1 else None
                yield _event({"choices": [{"index": 0, "text": word, "finish_reason": finish}]})
                if self.hold is not None:
                    await self.hold.wait()
            yield ": a comment\n\n"
            yield _event({"choices": [], "usage": {"completion_tokens": count}})
            yield "data: [DONE]\n\n"
        finally:
            self.open -= 1


def _event(value: object) -> str:
    return f"data: {json.dumps(value)}\n\n"


@pytest.fixture
async def upstream(free_port: Callable[[], int]) -> AsyncIterator[Upstream]:
    upstream = Upstream()
    port = free_port()
    upstream.url = f"http://127.0.0.1:{port}/v1"
    async with _served(upstream, port):
        yield upstream


@contextlib.asynccontextmanager
async def _served(upstream: Upstream, port: int) -> AsyncIterator[None]:
    config = uvicorn.Config(
        upstream.app(), host="127.0.0.1", port=port, log_level="critical", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    task = asyncio.create_task(server.serve())
    try:
        await _until(lambda: server.started)
        yield
    finally:
        if upstream.hold is not None:
            upstream.hold.set()
        server.should_exit = True
        await task


def _backend(upstream: Upstream, name: str = "big", key: str | None = None) -> UpstreamBackend:
    model = UpstreamModel(
        url=upstream.url,
        name=name,
        family="llama",
        vocab_size=300,
        context_length=4096,
        eos_token_ids=(0,),
        slots=8,
        sample=(1, 2),
        decode=lambda ids: f"text of {list(ids)}",
        token_id=lambda text: WORDS.index(text) if text in WORDS else None,
    )
    return UpstreamBackend(model, key=key, watch_seconds=0.05)


@pytest.fixture
async def backend(upstream: Upstream) -> AsyncIterator[UpstreamBackend]:
    backend = _backend(upstream)
    await backend.start()
    upstream.bodies.clear()
    yield backend
    await backend.stop()


def _request(name: str = "r", **sampling: Any) -> GenerateRequest:
    return GenerateRequest(
        request_id=name,
        prompt_token_ids=(7, 8, 9),
        sampling=SamplingParams(**{"max_tokens": 16, "temperature": 0.0, **sampling}),
    )


async def _read(backend: UpstreamBackend, request: GenerateRequest) -> tuple[str, int, FinishReason | None]:
    text, tokens, reason = "", 0, None
    async for delta in backend.generate(request):
        text += delta.text
        tokens += len(delta.token_ids)
        reason = delta.finish_reason or reason
    return text, tokens, reason


async def test_an_answer_comes_whole_and_counted(upstream: Upstream, backend: UpstreamBackend) -> None:
    assert await _read(backend, _request()) == ("The ferry leaves at noon", 5, FinishReason.STOP)
    assert await _read(backend, _request(max_tokens=2)) == ("The ferry", 2, FinishReason.LENGTH)
    assert upstream.bodies[0]["prompt"] == [7, 8, 9]
    assert upstream.bodies[0]["model"] == "big"


async def test_a_requests_trace_goes_on_in_the_upstream(upstream: Upstream, backend: UpstreamBackend) -> None:
    context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    request = msgspec.structs.replace(_request(), headers={"traceparent": context})
    await _read(backend, request)
    await _read(backend, _request("other"))
    assert [headers.get("traceparent") for headers in upstream.headers[-2:]] == [context, None]


async def test_what_it_learned_of_the_upstream(backend: UpstreamBackend) -> None:
    assert backend.state is EngineState.READY
    assert (backend.info.context_length, backend.info.device) == (100, "upstream")


async def test_text_is_sent_where_ids_are_not_taken(upstream: Upstream) -> None:
    upstream.takes_ids = False
    backend = _backend(upstream)
    await backend.start()
    try:
        assert (await _read(backend, _request()))[1] == 5
        assert upstream.bodies[-1]["prompt"] == "text of [7, 8, 9]"
    finally:
        await backend.stop()


async def test_the_key_is_sent_and_a_wrong_one_is_said(upstream: Upstream) -> None:
    upstream.key = "sk-right"
    wrong, right = _backend(upstream, key="sk-wrong"), _backend(upstream, key="sk-right")
    try:
        with pytest.raises(EngineLoadError, match=r"refuses the key.*secretRef") as refusal:
            await wrong.start()
        assert "sk-wrong" not in str(refusal.value)
        await right.start()
    finally:
        await wrong.stop()
        await right.stop()


async def test_a_model_that_it_does_not_serve_is_said(upstream: Upstream) -> None:
    backend = _backend(upstream, name="other")

    with pytest.raises(EngineLoadError, match=r"does not serve the model 'other'; it has big, small"):
        await backend.start()
    await backend.stop()


async def test_an_upstream_that_lists_no_models_will_do(upstream: Upstream) -> None:
    upstream.lists_models = False
    backend = _backend(upstream)
    await backend.start()
    try:
        assert backend.info.context_length == 4096
    finally:
        await backend.stop()


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, RequestFailed), (500, RequestFailed), (429, EngineNotReady), (503, EngineNotReady)],
)
async def test_a_refusal_is_passed_on_without_its_words(
    upstream: Upstream, backend: UpstreamBackend, status: int, error: type[Exception]
) -> None:
    upstream.status = status

    with pytest.raises(error) as refusal:
        await _read(backend, _request())
    assert "secret" not in str(refusal.value)

    upstream.status = 200
    assert (await _read(backend, _request()))[1] == 5


async def test_a_cut_connection_is_an_error_not_an_answer(
    upstream: Upstream, backend: UpstreamBackend
) -> None:
    upstream.cut_after = 2
    read: list[str] = []

    async def read_all() -> None:
        async for delta in backend.generate(_request()):
            read.append(delta.text)  # noqa: PERF401 (what came before the error counts)

    with pytest.raises(EngineDied):
        await read_all()
    assert "".join(read) == "The ferry"


async def test_an_error_in_mid_stream_is_an_error(upstream: Upstream, backend: UpstreamBackend) -> None:
    upstream.error_after = 1

    with pytest.raises(RequestFailed, match="in the middle"):
        await _read(backend, _request())


@pytest.mark.parametrize(
    "choice",
    [
        '"x"',
        "[]",
        "7",
        '{"text": 7}',
        '{"text": "a", "logprobs": [1]}',
        '{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": [-1], "top_logprobs": [["a", -1]]}}',
        '{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": ["b"]}}',
        '{"text": "a", "token_ids": [Infinity]}',
        '{"text": "a", "token_ids": 5}',
        '{"text": "a", "finish_reason": "stop", "logprobs": {"tokens": 5}}',
    ],
)
async def test_what_is_no_chunk_ends_the_request_and_no_other(
    upstream: Upstream, backend: UpstreamBackend, choice: str
) -> None:
    upstream.choice = choice
    with pytest.raises((RequestFailed, EngineDied)):
        await asyncio.wait_for(_read(backend, _request()), 5)
    upstream.choice = None
    assert (await _read(backend, _request()))[1] == 5


async def test_a_log_probability_that_is_no_number_is_the_lowest(
    upstream: Upstream, backend: UpstreamBackend
) -> None:
    upstream.choice = (
        '{"text": "The", "finish_reason": "stop", "logprobs": {"tokens": ["The"], "token_logprobs": [NaN]}}'
    )
    deltas = [delta async for delta in backend.generate(_request(logprobs=0, max_tokens=1))]
    assert [entry.token.logprob for delta in deltas for entry in delta.logprobs] == [-9999.0]


async def test_nothing_to_generate_needs_no_upstream(upstream: Upstream, backend: UpstreamBackend) -> None:
    assert await _read(backend, _request(max_tokens=0)) == ("", 0, FinishReason.LENGTH)
    assert upstream.bodies == []


async def test_leaving_early_closes_the_upstreams_connection(
    upstream: Upstream, backend: UpstreamBackend
) -> None:
    upstream.hold = asyncio.Event()
    stream = backend.generate(_request())
    assert (await anext(stream)).text == "The"
    assert upstream.open == 1

    await stream.aclose()

    await _until(lambda: not upstream.open and not backend.stats.running)


async def test_it_is_submitted_before_it_is_read(upstream: Upstream, backend: UpstreamBackend) -> None:
    stream = backend.generate(_request())
    await _until(lambda: bool(upstream.bodies))
    await stream.aclose()


async def test_an_upstream_that_goes_and_comes_back(free_port: Callable[[], int]) -> None:
    port = free_port()
    upstream = Upstream(url=f"http://127.0.0.1:{port}/v1")
    backend = _backend(upstream)
    starting = asyncio.create_task(backend.start())
    try:
        await _until(lambda: bool(backend.failure))
        assert backend.state is EngineState.LOADING
        with pytest.raises(EngineNotReady):
            backend.generate(_request())
        async with _served(upstream, port):
            await starting
            assert backend.state is EngineState.READY
        await _until(lambda: backend.state is EngineState.RESTARTING)
        with pytest.raises(EngineNotReady, match="cannot be reached"):
            backend.generate(_request())
        async with _served(upstream, port):
            await _until(lambda: backend.state is EngineState.READY)
            assert (await _read(backend, _request()))[1] == 5
    finally:
        starting.cancel()
        await backend.stop()


async def test_stopping_ends_what_is_open(upstream: Upstream) -> None:
    upstream.hold = asyncio.Event()
    upstream.hold.set()
    backend = _backend(upstream)
    await backend.start()
    upstream.hold.clear()
    stream = backend.generate(_request())
    await anext(stream)

    await backend.stop()

    with pytest.raises(EngineDied):
        await anext(stream)
    assert backend.state is EngineState.STOPPED


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.01)
