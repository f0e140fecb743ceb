from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from ferry_runtime.api.app import create_app

from .support import Stack, build_stack

MakeClient = Callable[..., Awaitable[httpx.AsyncClient]]


@pytest.fixture
async def stacks() -> AsyncIterator[list[Stack]]:
    """Every stack that a test made, stopped at its end."""
    made: list[Stack] = []
    yield made
    for stack in made:
        await stack.stop()


@pytest.fixture
async def make_client(stacks: list[Stack]) -> AsyncIterator[MakeClient]:
    """A client of a new app; its arguments are those of `build_stack`."""
    clients: list[httpx.AsyncClient] = []

    async def make(**options: Any) -> httpx.AsyncClient:
        stack = build_stack(**options)
        stacks.append(stack)
        await stack.backend.start()
        transport = httpx.ASGITransport(create_app(stack.services), raise_app_exceptions=True)
        clients.append(httpx.AsyncClient(transport=transport, base_url="http://ferry", timeout=20))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()


@pytest.fixture
async def client(make_client: MakeClient) -> httpx.AsyncClient:
    return await make_client()
