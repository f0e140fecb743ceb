"""What `ferry run` and `ferry serve` share: one event loop from the open port to the last goodbye."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator

import uvicorn
import uvloop

from ferry_runtime.api.connection import BoundedConnection
from ferry_runtime.caching import StoreChoice
from ferry_runtime.cli.control import ControlServer
from ferry_runtime.cli.exits import CommandFailed, Exit
from ferry_runtime.engine.protocol import EngineState
from ferry_runtime.errors import SecretMissing
from ferry_runtime.lifecycle import DrainingServer
from ferry_runtime.service import Service
from ferry_runtime.settings import store_address
from ferry_runtime.store.address import StoreAddress

logger = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 75
# After Ctrl-C: how long open requests may go on. A second Ctrl-C cuts them at once.
_HURRY_SECONDS = 2.0
_WATCH_SECONDS = 0.5


class CommandServer(DrainingServer):
    """Ctrl-C is somebody at a terminal who wants it over, not a scheduler that gives time."""

    interrupted = False

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config, service.lifecycle)
        self._service = service
        self._hurry: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
            yield

    def _interrupt(self) -> None:
        self.interrupted = True
        self._service.lifecycle.request_drain()
        if self._hurry is None:
            self._hurry = asyncio.create_task(self._cut_what_lasts())

    async def _cut_what_lasts(self) -> None:
        lifecycle = self._service.lifecycle
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(lifecycle.wait_drained(), _HURRY_SECONDS)
            return
        lifecycle.request_drain()


def choose_store(*, embedded: bool) -> StoreChoice:
    """From the environment. Raises ConfigurationError for an address that is wrong for good."""

    def address() -> StoreAddress | None:
        return store_address(os.environ)

    with contextlib.suppress(SecretMissing):
        address()
    return StoreChoice(address=address, embedded=embedded)


def serve_until_stopped(
    make_service: Callable[[], Service], listener: socket.socket, when_ready: Callable[[float], None]
) -> int:
    """Serve on ``listener``; returns the exit code. ``when_ready`` gets the seconds that it took.

    Raises ModelPreparationError, EngineLoadError or CommandFailed.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(make_service(), listener, when_ready))


async def _serve(service: Service, listener: socket.socket, when_ready: Callable[[float], None]) -> int:
    began = time.monotonic()
    server = CommandServer(_uvicorn_config(service), service)
    control = ControlServer(listener.getsockname()[1], service.lifecycle.leave)
    serving = asyncio.create_task(server.serve([listener]), name="http")
    starting = asyncio.create_task(service.start(), name="start")
    try:
        await control.start()
        await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            when_ready(time.monotonic() - began)
            await _until_over(serving, service)
        return Exit.INTERRUPTED if server.interrupted else Exit.OK
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
        await control.stop()
        await service.stop()


async def _until_over(serving: asyncio.Task[None], service: Service) -> None:
    while not serving.done():
        await asyncio.wait({serving}, timeout=_WATCH_SECONDS)
        if service.backend.state is EngineState.FAILED:
            raise CommandFailed(Exit.MODEL, service.backend.failure or "The engine could not be restarted.")
    serving.result()


def _uvicorn_config(service: Service) -> uvicorn.Config:
    return uvicorn.Config(
        service.app,
        http=BoundedConnection,
        ws="none",
        lifespan="off",
        log_config=None,  # ours stays
        access_log=False,  # the API writes one line a request, with its id
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
