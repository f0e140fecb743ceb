"""Kill -9 of the engine process while it serves, seen by clients over real sockets."""

from __future__ import annotations

import asyncio
import signal

import psutil


def engine_of(server):
    children = psutil.Process(server.process.pid).children(recursive=True)
    return next(child for child in children if "engine.worker" in " ".join(child.cmdline()))


async def test_the_running_fail_the_queued_are_served_and_the_server_goes_on(start_server, tiny_model):
    server = await start_server(model=str(tiny_model), slots=4, drain=5.0)
    await server.open_streams(4, max_tokens=8000)
    queued = [asyncio.create_task(server.complete(max_tokens=20)) for _ in range(20)]
    async with asyncio.timeout(60):
        while await server.metric("num_requests_waiting") < 20:
            pass
    engine_of(server).send_signal(signal.SIGKILL)

    ends = await server.ends()
    assert all(end.error is not None and not (end.cut or end.done or end.finish_reason) for end in ends)
    responses = await asyncio.gather(*queued)
    # One or two had been handed over to follow the running ones and died with them.
    assert sorted({response.status_code for response in responses}) in ([200], [200, 503])
    assert sum(response.status_code == 200 for response in responses) >= 18
    assert (await server.client.get("/livez")).status_code == 200
    assert (await server.complete()).status_code == 200
    assert await server.metric("engine_restarts_total") == 1
    server.signal(signal.SIGTERM)
    assert await server.exit_code() == 0
