"""Clients that close their sockets, over real ones: nobody else notices."""

from __future__ import annotations

import asyncio
import json

import pytest


async def connect(server, *, stream):
    """A client whose request has been sent; what it never does is read to the end."""
    body = {"model": "tiny", "prompt": "x", "ignore_eos": True, "stream": stream, "max_tokens": 4000}
    text = json.dumps(body)
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(text)}\r\n\r\n{text}".encode())
    await writer.drain()
    return writer


async def until(server, name, value, **labels):
    async with asyncio.timeout(30):
        while await server.metric(name, **labels) != value:
            pass


async def started(server):
    return await server.metric("request_queue_time_seconds_count")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_hundred_clients_leave_the_queue_at_once_and_none_of_them_is_computed(start_server, stream):
    server = await start_server(slots=4, step=0.005)
    busy = [await connect(server, stream=stream) for _ in range(5)]  # the slots, and one to follow
    await until(server, "num_requests_waiting", 1)
    leaving = await asyncio.gather(*(connect(server, stream=stream) for _ in range(100)))
    await until(server, "num_requests_waiting", 101)
    staying = asyncio.create_task(server.complete(max_tokens=20))
    await until(server, "num_requests_waiting", 102)

    for writer in leaving:
        writer.transport.abort()
    await until(server, "requests_total", 100, outcome="cancelled")
    assert await server.metric("num_requests_waiting") == 2
    assert await started(server) == 5
    for writer in busy:
        writer.transport.abort()
    answer = await staying
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] == 20
    assert await started(server) == 6


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_hundred_running_clients_leave_at_once_and_their_neighbour_goes_on(start_server, stream):
    server = await start_server(slots=101, step=0.005)
    staying = asyncio.create_task(server.complete(max_tokens=200))
    leaving = await asyncio.gather(*(connect(server, stream=stream) for _ in range(100)))
    await until(server, "num_requests_running", 101)
    for writer in leaving:
        writer.transport.abort()
    await until(server, "requests_total", 100, outcome="cancelled")
    answer = await staying
    assert answer.json()["usage"]["completion_tokens"] == 200
    assert answer.json()["choices"][0]["finish_reason"] == "length"
    assert (await server.complete()).status_code == 200
