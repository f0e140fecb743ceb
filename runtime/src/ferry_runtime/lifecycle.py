"""The service's states, and how it ends without cutting anyone off.

    starting ─> ready ⇄ restarting ─> failed
                  └─> leaving ─> finishing ─> stopped

*Leaving* (`ferry drain`, before a pod is taken down): not ready any more and every response says
``Connection: close``, but new requests are still served while load balancers catch up.
*Finishing* (SIGTERM): new requests are refused; what was admitted ends within drainTimeout. At the
timeout, or at a second SIGTERM, every open request ends with an error that its client sees.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Protocol

import uvicorn

from ferry_runtime.engine.protocol import Backend, EngineState
from ferry_runtime.errors import FerryError, ShuttingDown

_log = logging.getLogger(__name__)

# After the last request has ended: for responses to reach slow sockets, in seconds.
_FLUSH_SECONDS = 3


class ServiceState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    LEAVING = "leaving"
    FINISHING = "finishing"
    STOPPED = "stopped"


class Drainable(Protocol):
    """What the lifecycle asks of the pipeline."""

    def refuse(self, error: FerryError) -> None: ...

    def fail_all(self, error: FerryError) -> None: ...

    async def wait_idle(self) -> None: ...


_OF_ENGINE = {
    EngineState.LOADING: ServiceState.STARTING,
    EngineState.READY: ServiceState.READY,
    EngineState.RESTARTING: ServiceState.RESTARTING,
    EngineState.FAILED: ServiceState.FAILED,
    EngineState.STOPPED: ServiceState.STOPPED,
}

_REASONS = {
    ServiceState.STARTING: "The model is being loaded.",
    ServiceState.READY: "",
    ServiceState.RESTARTING: "The engine stopped and is being restarted.",
    ServiceState.FAILED: "The engine could not be started; its log says why.",
    ServiceState.LEAVING: "This replica is about to be shut down.",
    ServiceState.FINISHING: "This replica is shutting down and finishes what it has begun.",
    ServiceState.STOPPED: "This replica has stopped.",
}


class Lifecycle:
    """Answers the probes and carries out the drain. All methods belong to one event loop."""

    def __init__(self, backend: Backend, pipeline: Drainable, drain_timeout: Callable[[], float]) -> None:
        """``drain_timeout`` is asked when the drain begins: it may change while serving."""
        self._backend = backend
        self._pipeline = pipeline
        self._drain_timeout = drain_timeout
        self._ending: ServiceState | None = None
        self._cut = asyncio.Event()
        self._drained = asyncio.Event()
        self._finisher: asyncio.Task[None] | None = None

    @property
    def state(self) -> ServiceState:
        return self._ending or _OF_ENGINE[self._backend.state]

    @property
    def ready(self) -> bool:
        """For /readyz. The engine becomes ready after a real warm-up generation."""
        return self.state is ServiceState.READY

    @property
    def live(self) -> bool:
        """For /livez: false only when the engine could not be restarted, which a new pod might mend."""
        return self._backend.state is not EngineState.FAILED

    @property
    def draining(self) -> bool:
        """Responses say ``Connection: close``."""
        return self._ending is not None

    @property
    def phase(self) -> str:
        """The state in one word, for /health."""
        return self.state.value

    @property
    def reason(self) -> str:
        """Why it is not ready, in a sentence for users; empty when it is."""
        return _REASONS[self.state]

    def leave(self) -> None:
        """Ask to be taken out of load balancing, and go on serving. Idempotent."""
        if self._ending is None:
            _log.info("leaving: not ready any more, still serving")
            self._ending = ServiceState.LEAVING

    def request_drain(self) -> None:
        """Refuse what is new and finish what is open; the second call ends what is open."""
        if self._finisher is not None:
            _log.warning("second request to stop: ending open requests now")
            self._cut.set()
            return
        _log.info("draining: refusing new requests, finishing open ones")
        self._ending = ServiceState.FINISHING
        self._pipeline.refuse(ShuttingDown("This server is shutting down. Send the request again."))
        self._finisher = asyncio.get_running_loop().create_task(self._finish())

    async def wait_drained(self) -> None:
        """Until a requested drain is over: nothing is open any more."""
        await self._drained.wait()

    async def _finish(self) -> None:
        idle = asyncio.ensure_future(self._pipeline.wait_idle())
        cut = asyncio.ensure_future(self._cut.wait())
        waits = {idle, cut}
        try:
            await asyncio.wait(waits, timeout=self._drain_timeout(), return_when=asyncio.FIRST_COMPLETED)
            if not idle.done():
                _log.warning("drain: ending the requests that are still open")
                self._pipeline.fail_all(
                    ShuttingDown("This server was shut down before the answer was complete.")
                )
        finally:
            for wait in waits:
                wait.cancel()
            self._ending = ServiceState.STOPPED
            self._drained.set()


class DrainingServer(uvicorn.Server):
    """uvicorn with the lifecycle's signals in place of its own, which would close the listeners
    first and leave open streams no time limit of ours."""

    def __init__(self, config: uvicorn.Config, lifecycle: Lifecycle) -> None:
        super().__init__(config)
        self._lifecycle = lifecycle
        if config.timeout_graceful_shutdown is None:
            config.timeout_graceful_shutdown = _FLUSH_SECONDS

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the lifecycle has drained. SIGTERM and SIGINT request the drain."""
        exit_when_drained = asyncio.ensure_future(self._exit_when_drained())
        try:
            await super().serve(sockets)
        finally:
            exit_when_drained.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers = {
            signal.SIGTERM: self._lifecycle.request_drain,
            signal.SIGINT: self._lifecycle.request_drain,
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    async def _exit_when_drained(self) -> None:
        await self._lifecycle.wait_drained()
        self.should_exit = True
