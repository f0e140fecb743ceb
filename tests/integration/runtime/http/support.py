"""Servers on real sockets."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import uvicorn
from starlette.types import ASGIApp
from tests.conftest import until
from tests.unit.runtime.http.support import Stack, build_stack

from ferry_runtime.api.app import create_app
from ferry_runtime.api.connection import BoundedConnection

T = TypeVar("T")


class QuietServer(uvicorn.Server):
    """Leaves the test process's signal handlers alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True)
class Served:
    stack: Stack
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def connect(self, path: str, body: bytes, *, headers: str = "") -> Connection:
        """A raw connection that has sent one POST."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = (
            f"POST {path} HTTP/1.1\r\nhost: ferry\r\ncontent-type: application/json\r\n"
            f"{headers}content-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        return Connection(reader, writer)


@dataclass(frozen=True)
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[int]:
    """Serves ``app`` in this event loop; gives the port."""
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        http=BoundedConnection,
        log_config=None,
        lifespan="off",
        timeout_graceful_shutdown=2,
    )
    server = QuietServer(config)
    task = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started or task.done())
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Served]:
    """A started stack behind a socket; ``options`` are those of `build_stack`."""
    stack = build_stack(**options)
    await stack.start()
    try:
        async with listening(create_app(stack.services)) as port:
            yield Served(stack, port)
    finally:
        await stack.stop()


@contextmanager
def threaded(**options: Any) -> Iterator[Served]:
    """The same for clients that block: the server has a thread and an event loop of its own."""
    with in_thread(lambda: serving(**options)) as served:
        yield served


@contextmanager
def in_thread(make: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """What ``make`` gives, open in a thread with an event loop of its own."""
    started: concurrent.futures.Future[T] = concurrent.futures.Future()
    loop = asyncio.new_event_loop()

    async def hold() -> None:
        try:
            async with make() as held:
                started.set_result(held)
                await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001 (raised where the server is asked for)
            started.set_exception(error)

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    task = loop.create_task(hold())
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield started.result(timeout=100)
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
