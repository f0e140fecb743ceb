"""A server that answers before it has a model, and says how far it is."""

from __future__ import annotations

import pytest

from ferry_runtime.engine.fake import FakeBackend
from ferry_runtime.engine.protocol import EngineState, EngineStats, GenerateRequest, SamplingParams
from ferry_runtime.errors import EngineNotReady, FerryError
from ferry_runtime.lifecycle import ServiceState
from ferry_runtime.models.progress import Progress, Stage
from ferry_runtime.startup import DeferredBackend, StartingLifecycle, describe


class Idle:
    """A pipeline with nothing to drain."""

    def refuse(self, error: FerryError) -> None: ...

    def fail_all(self, error: FerryError) -> None: ...

    async def wait_idle(self) -> None: ...


@pytest.fixture
def deferred() -> DeferredBackend:
    return DeferredBackend()


@pytest.fixture
def lifecycle(deferred: DeferredBackend) -> StartingLifecycle:
    return StartingLifecycle(deferred, Idle(), lambda: 1.0)


def _request() -> GenerateRequest:
    return GenerateRequest(request_id="r", prompt_token_ids=(1,), sampling=SamplingParams(max_tokens=3))


def test_before_there_is_an_engine_the_stage_is_said(
    deferred: DeferredBackend, lifecycle: StartingLifecycle
) -> None:
    deferred.stage = "downloading, 45 %"

    assert deferred.state is EngineState.LOADING
    assert deferred.stats == EngineStats()
    with pytest.raises(EngineNotReady, match="downloading, 45 %"):
        deferred.generate(_request())
    with pytest.raises(EngineNotReady):
        _ = deferred.info
    assert lifecycle.state is ServiceState.STARTING
    assert lifecycle.reason == "The model is not ready yet: downloading, 45 %."
    assert not lifecycle.ready


async def test_the_engine_takes_over(deferred: DeferredBackend, lifecycle: StartingLifecycle) -> None:
    engine = FakeBackend()
    deferred.become(engine)
    await deferred.start()

    assert deferred.state is EngineState.READY
    assert deferred.info == engine.info
    assert [delta async for delta in deferred.generate(_request())]
    assert (lifecycle.ready, lifecycle.reason) == (True, "")
    await deferred.stop()
    assert engine.state is EngineState.STOPPED


def test_a_start_that_failed_says_why(deferred: DeferredBackend, lifecycle: StartingLifecycle) -> None:
    deferred.fail("The disk is full.")

    assert deferred.state is EngineState.FAILED
    assert (lifecycle.state, lifecycle.reason, lifecycle.live) == (
        ServiceState.FAILED,
        "The disk is full.",
        False,
    )


async def test_stopping_before_there_is_an_engine_is_fine(deferred: DeferredBackend) -> None:
    await deferred.stop()


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (Progress(Stage.DOWNLOAD, 45, 100, "B"), "downloading, 45 %"),
        (Progress(Stage.READ), "reading the packaged weights"),
    ],
)
def test_progress_in_words(progress: Progress, words: str) -> None:
    assert describe(progress) == words
