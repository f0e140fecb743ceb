"""The service's states, without sockets or signals."""

from __future__ import annotations

import asyncio

import pytest

from ferry_runtime.engine.fake import FakeBackend
from ferry_runtime.errors import EngineLoadError, ShuttingDown
from ferry_runtime.lifecycle import Lifecycle, ServiceState


class Work:
    """What a pipeline does for the lifecycle."""

    def __init__(self):
        self.idle = asyncio.Event()
        self.refusal = None
        self.failure = None

    def refuse(self, error):
        self.refusal = error

    def fail_all(self, error):
        self.failure = error

    async def wait_idle(self):
        await self.idle.wait()


@pytest.fixture
async def parts():
    backend, work = FakeBackend(), Work()
    yield backend, work, Lifecycle(backend, work, lambda: 3600.0)
    await backend.stop()


async def test_it_is_live_but_not_ready_while_the_model_loads(parts):
    backend, _, lifecycle = parts
    assert (lifecycle.phase, lifecycle.live, lifecycle.ready) == ("starting", True, False)
    assert lifecycle.reason
    await backend.start()
    assert (lifecycle.phase, lifecycle.live, lifecycle.ready) == ("ready", True, True)
    assert lifecycle.reason == ""


async def test_a_restart_costs_readiness_not_life(parts):
    backend, _, lifecycle = parts
    await backend.start()
    backend.die()
    assert (lifecycle.state, lifecycle.live, lifecycle.ready) == (ServiceState.RESTARTING, True, False)
    backend.recover()
    assert lifecycle.ready


async def test_an_engine_that_cannot_be_started_costs_life(parts):
    backend, _, lifecycle = parts
    backend.controls.load_error = "no such model"
    with pytest.raises(EngineLoadError):
        await backend.start()
    assert (lifecycle.state, lifecycle.live, lifecycle.ready) == (ServiceState.FAILED, False, False)


async def test_leaving_goes_on_serving_and_draining_refuses(parts):
    backend, work, lifecycle = parts
    await backend.start()
    lifecycle.leave()
    assert (lifecycle.phase, lifecycle.ready, lifecycle.draining) == ("leaving", False, True)
    assert work.refusal is None
    lifecycle.request_drain()
    assert lifecycle.phase == "finishing"
    assert isinstance(work.refusal, ShuttingDown)
    lifecycle.leave()
    assert lifecycle.phase == "finishing"
    work.idle.set()
    await lifecycle.wait_drained()
    assert lifecycle.phase == "stopped"
    assert work.failure is None


async def test_the_second_request_to_drain_ends_what_is_open(parts):
    backend, work, lifecycle = parts
    await backend.start()
    lifecycle.request_drain()
    lifecycle.request_drain()
    await lifecycle.wait_drained()
    assert isinstance(work.failure, ShuttingDown)


async def test_the_timeout_that_counts_is_the_one_when_the_drain_begins():
    backend, work, timeout = FakeBackend(), Work(), 3600.0
    lifecycle = Lifecycle(backend, work, lambda: timeout)
    timeout = 0.0
    lifecycle.request_drain()
    await lifecycle.wait_drained()
    assert isinstance(work.failure, ShuttingDown)
