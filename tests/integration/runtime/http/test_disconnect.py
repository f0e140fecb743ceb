"""Clients that leave, at every stage of a request, over real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from typing import Any

import httpx
import pytest
from tests.conftest import until
from tests.integration.runtime.http.support import Served, serving
from tests.unit.runtime.http.support import CONTEXT, VOCAB, chat_body, completion_body, events_of

from ferry_runtime.engine.fake import FakeBackend

CHAT = "/v1/chat/completions"
LONG: dict[str, Any] = {"max_tokens": 900, "ignore_eos": True}


def encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


def slow_backend(*, slots: int = 8) -> FakeBackend:
    backend = FakeBackend(slots=slots, vocab_size=VOCAB, context_length=CONTEXT)
    backend.controls.step_seconds = 0.005
    return backend


def outcomes(served: Served) -> list[str]:
    return [request.outcome for request in served.stack.services.recent.latest(100)]


def idle(served: Served) -> bool:
    return served.stack.backend.stats.running == 0 and served.stack.backend.stats.waiting == 0


async def gauge(served: Served, name: str) -> float:
    async with httpx.AsyncClient(base_url=served.url) as client:
        text = (await client.get("/metrics")).text
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " "))


async def still_serves(served: Served) -> None:
    async with httpx.AsyncClient(base_url=served.url, timeout=20) as client:
        assert (await client.post(CHAT, json=chat_body())).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(CHAT, chat_body(**LONG), id="chat"),
        pytest.param(CHAT, chat_body(**LONG, stream=True), id="chat stream"),
        pytest.param(CHAT, chat_body(**LONG, n=3), id="three choices"),
        pytest.param("/v1/completions", completion_body(**LONG, prompt=["a", "b"]), id="two prompts"),
        pytest.param(
            "/v1/completions", completion_body(**LONG, prompt=["a", "b"], n=2, stream=True), id="four streams"
        ),
        pytest.param("/generate", {"prompt": "x", "max_new_tokens": 900, "ignore_eos": True}, id="generate"),
    ],
)
async def test_a_client_that_leaves_frees_its_slots(path: str, body: dict[str, Any]) -> None:
    async with serving(backend=slow_backend()) as served:
        backend = served.stack.backend
        connection = await served.connect(path, encoded(body))
        if body.get("stream"):
            await connection.reader.readuntil(b"data: ")
        await until(lambda: backend.stats.running > 0)
        await connection.close()
        await until(lambda: bool(outcomes(served)))
        assert outcomes(served) == ["cancelled"]
        await until(lambda: backend.stats.running == 0)
        assert sorted(backend.cancelled) == sorted(backend.submitted)
        assert not backend.finished
        await still_serves(served)


async def test_clients_that_leave_while_queued_are_never_generated() -> None:
    async with serving(backend=slow_backend(slots=1)) as served:
        backend = served.stack.backend
        busy = await served.connect(CHAT, encoded(chat_body(**LONG, stream=True)))
        await busy.reader.readuntil(b"data: ")
        submitted = len(backend.submitted)
        queued = [
            await served.connect(CHAT, encoded(chat_body(max_tokens=50, stream=bool(number % 2))))
            for number in range(20)
        ]
        while await gauge(served, "ferry_num_requests_waiting") + len(backend.submitted) - submitted < 20:
            pass
        for connection in queued:
            await connection.close()
        await until(lambda: len(outcomes(served)) == 20)
        assert outcomes(served) == ["cancelled"] * 20
        assert await gauge(served, "ferry_num_requests_waiting") == 0
        await busy.close()
        await until(lambda: idle(served))
        await still_serves(served)
        assert len(backend.finished) == 1


async def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_no_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: 1000\r\n\r\n{"
        )
        await writer.drain()
        await asyncio.sleep(0.05)
        with caplog.at_level(logging.WARNING):
            writer.close()
            await writer.wait_closed()
            await still_serves(served)
        assert not caplog.records
        assert not reader.exception()
        assert await gauge(served, "ferry_http_requests_open") == 1  # the scrape itself


async def test_a_client_that_reads_slowly_gets_everything_and_holds_up_nobody() -> None:
    pieces = ["x" * 20_000 for _ in range(200)]
    backend = FakeBackend(vocab_size=VOCAB, context_length=CONTEXT, answer=lambda _: pieces)
    async with serving(backend=backend) as served:
        slow = await served.connect(CHAT, encoded(chat_body(max_tokens=500, stream=True)))
        # Nothing is read, yet the engine finishes: the answer waits on our side, not in a slot.
        await until(lambda: len(backend.finished) == 1)
        assert idle(served)
        body = b""
        while b"data: [DONE]" not in body:
            chunk = await slow.reader.read(1 << 16)
            assert chunk
            body += chunk
        assert body.count(b"x" * 20_000) == 200
        await slow.close()


async def test_a_client_that_reads_nothing_for_too_long_has_left() -> None:
    pieces = ["x" * 50_000 for _ in range(900)]
    backend = FakeBackend(vocab_size=VOCAB, context_length=CONTEXT, answer=lambda _: pieces)
    async with serving(backend=backend, write_timeout_seconds=0.2) as served:
        with socket.socket() as stuck:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.connect(("127.0.0.1", served.port))
            content = encoded(chat_body(max_tokens=900, stream=True))
            stuck.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n" % len(content) + content
            )
            await until(lambda: outcomes(served) == ["cancelled"])
        await until(lambda: idle(served))
        await still_serves(served)


@pytest.mark.parametrize("length", ["content-length", "chunked"])
async def test_a_body_of_64_megabytes_is_refused_and_the_connection_lives_on(length: str) -> None:
    megabyte = b" " * (1 << 20)

    async def chunks() -> Any:
        for _ in range(64):
            yield megabyte

    headers = {"content-type": "application/json"}
    if length == "content-length":
        headers["content-length"] = str(64 << 20)
    async with serving() as served, httpx.AsyncClient(base_url=served.url, timeout=30) as client:
        response = await client.post(CHAT, content=chunks(), headers=headers)
        assert response.status_code == 413
        assert response.json()["error"]["code"] == "body_too_large"
        for _ in range(2):
            assert (await client.post(CHAT, json=chat_body())).status_code == 200


async def test_eight_streams_at_once_do_not_mix() -> None:
    async with serving() as served, httpx.AsyncClient(base_url=served.url, timeout=30) as client:
        bodies = [
            completion_body(prompt=f"prompt {number}", temperature=0, max_tokens=9) for number in range(8)
        ]
        alone = [(await client.post("/v1/completions", json=body)).json() for body in bodies]
        together = await asyncio.gather(
            *(client.post("/v1/completions", json=body | {"stream": True}) for body in bodies)
        )
        for answer, streamed in zip(alone, together, strict=True):
            chunks = [json.loads(event) for event in events_of(streamed.text)[:-1]]
            text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
            assert text == answer["choices"][0]["text"]
            assert len({chunk["id"] for chunk in chunks}) == 1
