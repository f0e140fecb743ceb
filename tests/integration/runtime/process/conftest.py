"""A supervisor around echo_child, stopped whatever happens."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from ferry_runtime.process import Backoff, ChildCommand, Exit, Supervisor


class Order(msgspec.Struct, frozen=True):
    do: str
    value: str = ""


class Reply(msgspec.Struct, frozen=True):
    value: str


class Owner:
    """Records what its supervisor reports."""

    def __init__(self) -> None:
        self.replies: asyncio.Queue[str] = asyncio.Queue()
        self.lives: asyncio.Queue[int | None] = asyncio.Queue()
        self.exits: asyncio.Queue[tuple[Exit, float | None]] = asyncio.Queue()
        self.supervisor: Supervisor

    def started(self) -> None:
        self.lives.put_nowait(self.supervisor.pid)

    def received(self, message: Reply) -> None:
        self.replies.put_nowait(message.value)

    def exited(self, end: Exit, restart_in: float | None) -> None:
        self.exits.put_nowait((end, restart_in))

    async def pid(self) -> int:
        pid = await self.lives.get()
        assert pid is not None
        return pid

    def order(self, do: str, value: str = "") -> None:
        self.supervisor.send(Order(do, value))


MakeOwner = Callable[..., Owner]


@pytest.fixture
async def make_owner() -> AsyncIterator[MakeOwner]:
    owners: list[Owner] = []

    def make(backoff: Backoff | None = None, module: str = "echo_child", **env: str) -> Owner:
        owner = Owner()
        command = ChildCommand(
            name="echo", module=module, env={"PYTHONPATH": str(Path(__file__).parent), **env}
        )
        owner.supervisor = Supervisor(command, owner, Reply, backoff=backoff or Backoff(first_seconds=0.01))
        owner.supervisor.start()
        owners.append(owner)
        return owner

    yield make
    for owner in owners:
        await owner.supervisor.stop(grace_seconds=0.2)
