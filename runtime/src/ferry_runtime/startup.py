"""What stands in for the engine until there is one, so that the port can open at once."""

from __future__ import annotations

from collections.abc import Callable

from ferry_runtime.engine.protocol import (
    Backend,
    DeltaStream,
    EngineState,
    EngineStats,
    GenerateRequest,
    ModelInfo,
)
from ferry_runtime.errors import EngineNotReady
from ferry_runtime.lifecycle import Drainable, Lifecycle, ServiceState
from ferry_runtime.models.progress import Progress
from ferry_runtime.scheduling.scheduler import Pausable


class DeferredBackend:
    """Implements `Backend`: loading until `become` gives it the real one, failed after `fail`.

    ``stage`` says, for people, how far the start has come.
    """

    def __init__(self) -> None:
        self._inner: Backend | None = None
        self._failure: str | None = None
        self.stage = "starting"

    @property
    def inner(self) -> Backend | None:
        return self._inner

    @property
    def failure(self) -> str:
        """Why there is no engine, as a sentence; empty while nothing has failed."""
        return self._failure or getattr(self._inner, "failure", "") or ""

    def become(self, backend: Backend) -> None:
        self._inner = backend

    def fail(self, sentence: str) -> None:
        self._failure = sentence

    @property
    def state(self) -> EngineState:
        if self._failure is not None:
            return EngineState.FAILED
        return self._inner.state if self._inner is not None else EngineState.LOADING

    @property
    def info(self) -> ModelInfo:
        return self._required().info

    @property
    def stats(self) -> EngineStats:
        return self._inner.stats if self._inner is not None else EngineStats()

    # What a supervised engine process adds; see `metrics.Supervised`.

    @property
    def heartbeat_age(self) -> float:
        return float(getattr(self._inner, "heartbeat_age", 0.0))

    @property
    def restarts(self) -> int:
        return int(getattr(self._inner, "restarts", 0))

    @property
    def pid(self) -> int | None:
        return getattr(self._inner, "pid", None)

    async def start(self) -> None:
        await self._required().start()

    def generate(self, request: GenerateRequest) -> DeltaStream:
        return self._required().generate(request)

    # What an engine with memory of its own adds; see `scheduling.scheduler.Pausable`.

    def pause(self, request_id: str) -> None:
        self._pausable().pause(request_id)

    def resume(self, request_id: str) -> None:
        self._pausable().resume(request_id)

    async def stop(self) -> None:
        if self._inner is not None:
            await self._inner.stop()

    def _pausable(self) -> Pausable:
        inner = self._required()
        if not isinstance(inner, Pausable):
            raise TypeError("this engine cannot pause requests")
        return inner

    def _required(self) -> Backend:
        if self._inner is None:
            raise EngineNotReady(self._failure or f"The model is not ready yet: {self.stage}. Retry later.")
        return self._inner


class StartingLifecycle(Lifecycle):
    """The lifecycle, whose reasons name the stage of the start or what went wrong."""

    def __init__(
        self, backend: DeferredBackend, pipeline: Drainable, drain_timeout: Callable[[], float]
    ) -> None:
        super().__init__(backend, pipeline, drain_timeout)
        self._deferred = backend

    @property
    def reason(self) -> str:
        match self.state:
            case ServiceState.STARTING:
                return f"The model is not ready yet: {self._deferred.stage}."
            case ServiceState.FAILED if self._deferred.failure:
                return self._deferred.failure
            case _:
                return super().reason


def describe(progress: Progress) -> str:
    """One line for people: ``downloading, 45 %``."""
    if not progress.total:
        return str(progress.stage)
    return f"{progress.stage}, {100 * progress.done // progress.total} %"
