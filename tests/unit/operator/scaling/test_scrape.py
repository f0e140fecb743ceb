"""What pods say about their load."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from ferry_operator.scaling import scrape as module
from ferry_operator.scaling.decide import Load
from ferry_operator.scaling.scrape import load_of, scrape


def exposition(**values):
    registry = CollectorRegistry()
    for name, value in values.items():
        Gauge(f"ferry_{name}", "Text.", registry=registry).set(value)
    return generate_latest(registry)


def test_the_load_is_read_from_what_the_runtime_serves():
    text = exposition(num_requests_waiting=12, num_requests_running=8, queued_tokens=1e6)
    assert load_of(text) == Load(waiting=12, running=8)


@pytest.mark.parametrize("text", [b"", b"<html>", exposition(num_requests_waiting=1)], ids=repr)
def test_what_does_not_tell_is_no_load(text):
    assert load_of(text) is None


@pytest.fixture
async def port():
    async def metrics(_):
        return web.Response(body=exposition(num_requests_waiting=1, num_requests_running=2))

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def test_a_pod_is_asked_and_a_silent_one_is_none(port, monkeypatch):
    monkeypatch.setattr(module, "HTTP_PORT", port)
    async with aiohttp.ClientSession() as session:
        assert await scrape(session, "127.0.0.1") == Load(waiting=1, running=2)
        assert await scrape(session, "127.0.0.2") is None
