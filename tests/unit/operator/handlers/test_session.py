"""kopf's connection: a namespace that is closed to us is waited for, and kopf is not told."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from ferry_operator.handlers import session as module
from ferry_operator.handlers.freshness import Freshness
from ferry_operator.handlers.session import PatientSession

_OF_ONE = "/api/v1/namespaces/a/pods"
_OF_ALL = "/api/v1/pods"


class Server:
    """Answers with the next of `codes`, with the last one for ever."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.asked = 0

    async def answer(self, _):
        self.asked += 1
        return web.Response(status=self.codes.pop(0) if len(self.codes) > 1 else self.codes[0])


@pytest.fixture
def ask(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.001)

    async def asked(server, path, freshness):
        application = web.Application()
        application.router.add_get("/{rest:.*}", server.answer)
        async with TestClient(TestServer(application)) as client:
            patient = PatientSession(client.session, freshness)
            url = client.make_url(path)
            answer = await asyncio.wait_for(patient.request(method="get", url=url), 5)
            return answer.status

    return asked


async def test_it_waits_until_the_namespace_is_open_again(ask):
    freshness = Freshness()
    server = Server(403, 403, 200)
    assert await ask(server, _OF_ONE, freshness) == 200
    assert server.asked == 3
    assert freshness.closed(frozenset({_OF_ONE}))


@pytest.mark.parametrize(
    ("path", "code"), [(_OF_ONE, 401), (_OF_ONE, 404), (_OF_ONE, 500), (_OF_ALL, 403), (_OF_ALL, 200)]
)
async def test_every_other_answer_is_kopfs(ask, path, code):
    freshness = Freshness()
    server = Server(code)
    assert await ask(server, path, freshness) == code
    assert server.asked == 1
    assert not freshness.has(frozenset({path}))
