"""What is done only when nobody waits: the newest things, one at a time, and none of them for certain."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from tests.conftest import until

from ferry_runtime.cache import leisure
from ferry_runtime.cache.leisure import Leisure
from ferry_runtime.errors import EngineDied


@dataclass
class Room:
    """Handles items as the test says: by an error, by giving one up, or by writing it down."""

    idle: bool = True
    errors: dict[int, Exception] = field(default_factory=dict)
    gives_up: list[int] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    while_handling: Callable[[], None] = lambda: None

    async def handle(self, item: int) -> bool:
        self.tried.append(item)
        self.while_handling()
        if item in self.errors:
            raise self.errors[item]
        if item in self.gives_up:
            self.gives_up.remove(item)
            return False
        self.done.append(item)
        return True


@pytest.fixture
def room(monkeypatch) -> Room:
    monkeypatch.setattr(leisure, "_LOOK_EVERY", 0.001)
    return Room()


@pytest.fixture
async def work(room) -> AsyncIterator[Leisure[int]]:
    made = Leisure(room.handle, lambda: room.idle, limit=3, what="a thing")
    await made.start()
    yield made
    await made.stop()


async def test_nothing_is_done_while_somebody_waits(room, work):
    room.idle = False
    work.add(1)
    await asyncio.sleep(0.05)
    assert room.tried == []
    room.idle = True
    await until(lambda: room.done == [1])


async def test_a_moment_between_two_requests_is_no_quiet_while(room, work):
    looks: list[bool] = []

    def idle_but_for_every_fourth_look() -> bool:
        looks.append(len(looks) % 4 != 3)
        return looks[-1]

    work._idle = idle_but_for_every_fourth_look
    work.add(1)
    await until(lambda: len(looks) > 100)
    assert room.tried == []


async def test_the_newest_wait_and_older_ones_are_forgotten(room, work):
    room.idle = False
    for item in range(5):
        work.add(item)
    room.idle = True
    await until(lambda: room.done == [2, 3, 4])


async def test_what_was_given_up_is_tried_again_before_the_others(room, work):
    room.gives_up = [1, 1]
    for item in (1, 2):
        work.add(item)
    await until(lambda: room.done == [1, 2])
    assert room.tried == [1, 1, 1, 2]


async def test_what_was_given_up_gives_way_to_newer_ones(room, work):
    def three_come() -> None:
        room.while_handling = lambda: None
        for item in (2, 3, 4):
            work.add(item)

    room.gives_up, room.while_handling = [1], three_come
    work.add(1)
    await until(lambda: room.done == [2, 3, 4])


@pytest.mark.parametrize("error", [EngineDied("gone"), ValueError("the secret answer")])
async def test_one_that_fails_does_not_end_the_others(room, work, caplog, error):
    room.errors = {1: error}
    for item in (1, 2):
        work.add(item)
    await until(lambda: room.done == [2])
    assert "secret" not in caplog.text
    assert ("a thing failed: ValueError" in caplog.text) == isinstance(error, ValueError)


async def test_stopped_it_does_nothing_more(room, work):
    await work.stop()
    work.add(1)
    await asyncio.sleep(0.05)
    assert room.tried == []
