"""How a server ends while clients are connected: over real sockets, with real signals."""

from __future__ import annotations

import asyncio
import json
import signal
import socket

import httpx


async def refused(server):
    """The answer to a new request, once the server has begun to drain."""
    async with asyncio.timeout(20):
        while (response := await server.complete()).status_code == 200:
            pass
    return response


async def waiting(server, count):
    async with asyncio.timeout(20):
        while await server.metric("num_requests_waiting") < count:
            pass


async def test_sigterm_under_fifty_streams_lets_every_one_of_them_finish(start_server):
    server = await start_server(slots=8, step=0.005)
    await server.open_streams(50, max_tokens=40)
    server.signal(signal.SIGTERM)
    response = await refused(server)

    ends = await server.ends()
    assert [(end.status, end.done, end.finish_reason, end.error) for end in ends] == [
        (200, True, "length", None)
    ] * 50
    assert await server.exit_code() == 0
    assert response.status_code == 503
    assert response.headers["connection"] == "close"
    assert int(response.headers["retry-after"]) >= 1


async def test_at_the_drain_timeout_every_open_stream_ends_with_an_error(start_server):
    server = await start_server(slots=50, step=0.02, drain=0.3)
    await server.open_streams(50, max_tokens=8000)
    queued = [asyncio.create_task(server.complete(max_tokens=8000)) for _ in range(10)]
    await waiting(server, 10)
    server.signal(signal.SIGTERM)

    ends = await server.ends()
    assert all(end.error is not None and not end.cut for end in ends)
    assert not any(end.done or end.finish_reason for end in ends)
    assert [response.status_code for response in await asyncio.gather(*queued)] == [503] * 10
    assert await server.exit_code() == 0


async def test_a_second_sigterm_does_not_wait_for_the_timeout(start_server):
    server = await start_server(slots=20, step=0.02, drain=3600)
    await server.open_streams(20, max_tokens=8000)
    server.signal(signal.SIGTERM)
    await refused(server)
    assert server.process.returncode is None
    server.signal(signal.SIGTERM)

    ends = await server.ends()
    assert all(end.error is not None and not end.cut for end in ends)
    assert await server.exit_code() == 0


async def test_answers_in_one_piece_are_finished_too(start_server):
    server = await start_server(slots=2, step=0.005)
    whole = [asyncio.create_task(server.complete(max_tokens=40)) for _ in range(10)]
    await waiting(server, 8)
    server.signal(signal.SIGTERM)
    responses = await asyncio.gather(*whole)
    assert [response.status_code for response in responses] == [200] * 10
    assert all(response.json()["usage"]["completion_tokens"] == 40 for response in responses)
    assert await server.exit_code() == 0


async def test_without_open_requests_sigterm_ends_it_at_once(start_server):
    server = await start_server(drain=3600)
    idle = httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}")
    await idle.get("/livez")  # a kept-alive connection is no request
    server.signal(signal.SIGTERM)
    assert await server.exit_code() == 0
    await idle.aclose()


async def test_a_client_that_reads_nothing_cannot_hold_the_server(start_server):
    server = await start_server(step=0.0, drain=0.5)
    body = json.dumps(
        {"model": "tiny", "prompt": "x", "ignore_eos": True, "stream": True, "max_tokens": 8000}
    )
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.connect(("127.0.0.1", server.port))
        head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        deaf.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        async with asyncio.timeout(20):
            while await server.metric("num_requests_running") < 1:
                pass
        server.signal(signal.SIGTERM)
        assert await server.exit_code() == 0


async def test_a_leaving_server_is_not_ready_and_still_serves(start_server):
    server = await start_server(slots=2, step=0.01)
    assert (await server.client.get("/readyz")).status_code == 200
    await server.open_streams(2, max_tokens=50)
    server.signal(signal.SIGUSR1)
    async with asyncio.timeout(20):
        while (await server.client.get("/readyz")).status_code == 200:
            pass

    served = await server.complete()
    assert served.status_code == 200
    assert served.headers["connection"] == "close"
    assert (await server.client.get("/livez")).status_code == 200
    assert all(end.done for end in await server.ends())
    server.signal(signal.SIGTERM)
    assert await server.exit_code() == 0
