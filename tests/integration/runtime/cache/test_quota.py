"""A tenant's room in the store: kept by small steps, whatever the quota and the time to live do."""

import time
from collections.abc import AsyncIterator

import pytest

from ferry_runtime.store.redis_store import MOST_TRIMMED, Record, RedisStore

HOUR = 3600.0


@pytest.fixture
async def store(server) -> AsyncIterator[RedisStore]:
    made = RedisStore(server.address, "svc")
    yield made
    await made.close()


def record(number: int, life: float = HOUR) -> Record:
    return Record(id=f"{number:032x}", tenant="a", expires=time.time() + life, body=b"x", event=b"e")


async def fill(store: RedisStore, count: int) -> list[str]:
    for number in range(count):
        await store.put(record(number), now=time.time(), quota=10**9)
    return [record(number).id for number in range(count)]


async def test_a_lowered_quota_is_reached_in_steps_of_bounded_size(store) -> None:
    await fill(store, 3 * MOST_TRIMMED)
    quota, sizes = MOST_TRIMMED // 2, []
    for number in range(10):
        over = await store.put(record(10_000 + number), now=time.time(), quota=quota)
        await store.remove({"a": over}, b"e")
        sizes.append(len(over))
    assert sizes[0] == max(sizes) == MOST_TRIMMED
    assert sizes[-1] == 1  # the place of the one just written
    assert len(await store.ids("a", 0.0)) == quota


@pytest.mark.parametrize("over", [1, 5])
async def test_the_entry_just_written_stays_though_it_expires_first(store, over: int) -> None:
    await fill(store, 9 + over)
    new = record(99, life=60.0)
    removed = await store.put(new, now=time.time(), quota=10)
    assert len(removed) == over
    assert new.id not in removed


async def test_a_large_order_removes_everything_it_names_and_is_told_once(store) -> None:
    ids = await fill(store, 1_203)
    before = len(await store.events("0-0", 0.01, 10_000))
    assert await store.remove({"a": ids, "b": []}, b"order") == len(ids)
    assert await store.ids("a", 0.0) == []
    told = (await store.events("0-0", 0.01, 10_000))[before:]
    assert [(event.kind, event.data) for event in told] == [("purge", b"order")]
