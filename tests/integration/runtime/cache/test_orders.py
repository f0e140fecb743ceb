"""Orders to forget hold against answers that cross them on their way."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from tests.conftest import until
from tests.integration.runtime.cache.conftest import Replica

from ferry_runtime.cache import orders
from ferry_runtime.cache.control import CacheControl, Caller, EntryNotFound
from ferry_runtime.errors import StoreUnavailable
from ferry_runtime.generation import CacheOutcome

EXACT, MISS = CacheOutcome.EXACT, CacheOutcome.MISS
ADMIN = Caller("ops", admin=True)
Order = Callable[[CacheControl, str], Awaitable[object]]
ORDERS: dict[str, Order] = {
    "everything": lambda control, _: control.clear(ADMIN),
    "a tenant": lambda control, _: control.delete(ADMIN, tenant="a"),
    "a model": lambda control, _: control.delete(ADMIN, model="m"),
    "an entry": lambda control, entry_id: control.delete_entry(entry_id, ADMIN),
    "a wrong answer": lambda control, entry_id: control.feedback(entry_id, "wrong", ADMIN),
}


async def stored(replica: Replica) -> list[str]:
    return await replica.tiers.shared.store.ids("a", 0)


@pytest.mark.parametrize("crossing", ["before the removal", "after the removal"])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
async def test_an_answer_published_by_who_has_not_heard_is_gone_in_the_end(
    make_replica, monkeypatch, order: Order, crossing: str
) -> None:
    one, two = await make_replica(), await make_replica()
    await two.ask()
    await two.written()
    (entry_id,) = await stored(one)
    late = await two.tiers.fetch(entry_id, time.time())
    store, remove, crossed = one.tiers.shared.store, one.tiers.shared.store.remove, []

    async def removing(*arguments) -> int:
        if crossing == "before the removal" and not crossed:
            crossed.append(await two.tiers.publish(late, 100))
        removed = await remove(*arguments)
        if crossing == "after the removal" and not crossed:
            crossed.append(await two.tiers.publish(late, 100))
        return removed

    monkeypatch.setattr(store, "remove", removing)
    await order(CacheControl(one.layer), entry_id)
    assert crossed

    async def gone() -> bool:
        return not await stored(one) and not len(one.tiers.local) and not len(two.tiers.local)

    await until(gone)
    assert (await two.ask())[1] is MISS


async def test_what_others_read_from_the_store_during_an_order_is_forgotten_again(
    make_replica, monkeypatch
) -> None:
    one, two = await make_replica(), await make_replica()
    await one.ask()
    await until(lambda: len(two.tiers.local) == 1)
    store, remove = one.tiers.shared.store, one.tiers.shared.store.remove

    async def removing(*arguments) -> int:
        await until(lambda: len(two.tiers.local) == 0)
        assert (await two.ask())[1] is EXACT
        return await remove(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(store, "remove", removing)
        await CacheControl(one.layer).clear(ADMIN)
    await until(lambda: len(two.tiers.local) == 0)


async def test_what_is_made_after_an_order_stays(make_replica, monkeypatch) -> None:
    monkeypatch.setattr(orders, "_AGAIN_AFTER", 0.6)
    one, two = await make_replica(), await make_replica()
    await one.ask()
    await one.written()
    await CacheControl(one.layer).clear(ADMIN)
    await asyncio.sleep(0.3)
    said, _ = await two.ask()
    await two.written()
    await until(lambda: not one.layer.orders._second_looks)
    assert await two.ask() == (said, EXACT)
    assert len(await stored(one)) == 1


async def test_an_order_is_not_looked_after_once_the_cache_has_stopped(make_replica) -> None:
    one = await make_replica()
    await one.ask()
    await CacheControl(one.layer).clear(ADMIN)
    await one.layer.stop()
    assert not one.layer.orders._second_looks


ONE_ENTRY: dict[str, Order] = {
    "look": lambda control, entry_id: control.entry(entry_id, ADMIN),
    "delete": ORDERS["an entry"],
    "good": lambda control, entry_id: control.feedback(entry_id, "good", ADMIN),
    "wrong": ORDERS["a wrong answer"],
}


@pytest.mark.parametrize("order", ONE_ENTRY.values(), ids=ONE_ENTRY.keys())
async def test_an_entry_that_only_a_lost_store_could_know_is_not_called_absent(
    make_replica, server, order: Order
) -> None:
    one, two = await make_replica(), await make_replica()
    await two.ask()
    await two.written()
    (entry_id,) = await stored(one)
    await until(lambda: len(one.tiers.local) == 1)
    one.tiers.local.purge(lambda _: True)
    server.kill()
    control = CacheControl(one.layer)
    for _ in range(5):  # the breaker opens on the way
        with pytest.raises(StoreUnavailable):
            await order(control, entry_id)
    with pytest.raises(EntryNotFound):
        await order(control, "no entry's id")


@pytest.mark.parametrize("order", ["delete", "wrong"])
async def test_an_order_without_the_store_is_obeyed_here_and_said_to_be_no_more(
    make_replica, server, order: str
) -> None:
    one = await make_replica()
    await one.ask()
    await one.written()
    (entry_id,) = await stored(one)
    server.kill()
    one.tiers.feed._caught_up -= 60.0
    with pytest.raises(EntryNotFound):
        await ONE_ENTRY[order](CacheControl(one.layer), "f" * 31)
    with pytest.raises(StoreUnavailable):
        await ONE_ENTRY[order](CacheControl(one.layer), entry_id)
    assert len(one.tiers.local) == 0
