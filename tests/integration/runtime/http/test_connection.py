"""What a client may send before the server knows what it wants, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from tests.integration.runtime.http.support import Served, serving

from ferry_runtime.api.connection import MAX_HEAD_BYTES, BoundedConnection

PIECE = b"x" * 16_384
MANY = 40 * MAX_HEAD_BYTES // len(PIECE)
GET = b"GET /livez HTTP/1.1\r\nhost: x\r\n"
CHUNKED = (
    b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
HALF = b"GET /livez HTTP/1.1\r\nhost: x\r\na: "


async def exchange(served: Served, pieces: Iterable[bytes]) -> bytes:
    """All that the server sends until it closes; empty when it cuts the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        async with asyncio.timeout(20):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([GET + b"a: ", *[PIECE] * MANY], id="one header"),
        pytest.param([GET, *[b"a: b\r\n" * 2000] * MANY], id="many headers"),
        pytest.param([GET, PIECE * 8, b": b\r\n\r\n"], id="a header's name"),
        pytest.param([b"GET /", *[PIECE] * MANY], id="path"),
        pytest.param([b"GET /" + PIECE * 8 + b" HTTP/1.1\r\nhost: x\r\n\r\n"], id="path in one piece"),
        pytest.param([GET + b"a: " + PIECE * 5 + b"\r\n\r\n"], id="a header in one piece"),
        pytest.param([CHUNKED, b"1;", *[PIECE] * MANY], id="a chunk's extension"),
        pytest.param([CHUNKED, b"0\r\na: ", *[PIECE] * MANY], id="a trailer"),
    ],
)
async def test_a_head_without_end_is_refused_while_it_arrives(pieces: list[bytes]) -> None:
    async with serving() as served:
        answer = await exchange(served, pieces)
        assert answer.startswith(b"HTTP/1.1 431 ") or answer == b""  # a reset may overtake the answer
        answer = await exchange(served, [GET + b"connection: close\r\n\r\n"])
        assert answer.startswith(b"HTTP/1.1 200 ")


async def test_an_ordinary_client_may_send_long_headers_again_and_again() -> None:
    head = GET + b"cookie: " + b"c" * (MAX_HEAD_BYTES // 2) + b"\r\n\r\n"
    async with serving() as served:
        answer = await exchange(served, [head] * 4 + [GET + b"connection: close\r\n\r\n"])
        assert answer.count(b"HTTP/1.1 200 ") == 5


async def test_what_is_not_http_is_refused_in_the_shape_of_every_error() -> None:
    async with serving() as served:
        answer = await exchange(served, [b"BREW /pot HTTP/1.1\r\nhost: x\r\n\r\n"])
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert b'"code":"invalid_http"' in body


@pytest.mark.parametrize("sent", [b"", HALF], ids=["nothing", "half a head"])
async def test_a_connection_on_which_no_request_comes_is_closed(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedConnection, "head_seconds", 0.05)
    async with serving() as served:
        answer = await exchange(served, [sent])
        assert answer == b""


async def test_the_time_for_a_head_does_not_bound_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedConnection, "head_seconds", 0.5)
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(GET + b"\r\n")
        assert b" 200 " in await reader.readline()
        await asyncio.sleep(0.8)  # idle between two requests is the keep-alive's time, not the head's
        writer.write(GET + b"connection: close\r\n\r\n")
        assert b"HTTP/1.1 200 OK" in await reader.read()
        writer.close()
