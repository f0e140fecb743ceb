"""A store that dies, hangs, fills up, locks or lies: every request is answered all the same."""

import asyncio
import logging
import time

import pytest
from tests.conftest import until

from ferry_runtime.cache.feed import Freshness
from ferry_runtime.cache.messages import Scope
from ferry_runtime.generation import CacheOutcome
from ferry_runtime.store.address import StoreAddress

EXACT, MISS = CacheOutcome.EXACT, CacheOutcome.MISS


def lines(caplog, words: str) -> int:
    return sum(words in record.getMessage() for record in caplog.records)


async def works_again(replica) -> None:
    """Answers reach the store and come back from it."""

    async def shared_again() -> bool:
        text = f"probe {time.monotonic_ns()}"
        await replica.ask(text)
        await replica.written()
        replica.tiers.local.purge(lambda _: True)
        return (await replica.ask(text))[1] is EXACT

    await until(shared_again)


async def test_a_killed_and_restarted_store(make_replica, server, caplog) -> None:
    caplog.set_level(logging.INFO, "ferry_runtime.cache")
    replica = await make_replica()
    await replica.ask("before")
    server.kill()
    for number in range(20):
        assert (await replica.ask(str(number)))[1] is MISS
    await until(lambda: not replica.tiers.shared.reachable)
    server.start()
    await works_again(replica)
    assert lines(caplog, "reads at store") == 2
    assert lines(caplog, "writes at store") <= 2
    assert lines(caplog, "changes at store") == 2


async def test_a_frozen_store_costs_a_few_requests_a_deadline_and_no_more(
    make_replica, server, caplog
) -> None:
    caplog.set_level(logging.INFO, "ferry_runtime.cache")
    replica = await make_replica()
    server.freeze()
    for number in range(30):
        assert (await replica.ask(str(number)))[1] is MISS
    timeouts = replica.metrics.store_errors.labels("read", "unavailable")._value.get()
    assert 3 <= timeouts <= 6
    server.thaw()
    await works_again(replica)
    assert lines(caplog, "reads at store") == 2


async def test_what_a_replica_has_is_served_while_the_store_is_gone(make_replica, server) -> None:
    replica = await make_replica()
    said, _ = await replica.ask()
    server.kill()
    assert await replica.ask() == (said, EXACT)
    replica.tiers.feed._caught_up -= 5.0
    assert await replica.ask() == (said, EXACT)


async def test_but_not_when_purges_may_have_passed_it_by(make_replica, server) -> None:
    replica = await make_replica()
    await replica.ask()
    server.kill()
    replica.tiers.feed._caught_up -= 60.0
    assert (await replica.ask())[1] is MISS


async def test_a_full_store_still_answers(make_replica, server, caplog) -> None:
    replica = await make_replica()
    said, _ = await replica.ask("kept")
    await replica.written()
    await server.order("CONFIG", "SET", "maxmemory", "1")
    await server.order("CONFIG", "SET", "maxmemory-policy", "noeviction")
    for number in range(10):
        assert (await replica.ask(str(number)))[1] is MISS
    await replica.written()
    replica.tiers.local.purge(lambda _: True)
    assert await replica.ask("kept") == (said, EXACT)
    assert replica.tiers.shared.reachable
    assert not replica.tiers.shared.writable
    await server.order("CONFIG", "SET", "maxmemory", "0")
    await works_again(replica)
    assert lines(caplog, "writes at store") == 1  # the second one is of level info


async def test_a_read_only_store_still_answers(make_replica, server) -> None:
    replica = await make_replica()
    said, _ = await replica.ask("kept")
    await replica.written()
    await server.order("CONFIG", "SET", "replica-serve-stale-data", "yes")
    await server.order("REPLICAOF", "127.0.0.1", "1")
    for number in range(5):
        await replica.ask(str(number))
    await replica.written()
    replica.tiers.local.purge(lambda _: True)
    assert await replica.ask("kept") == (said, EXACT)
    await server.order("REPLICAOF", "NO", "ONE")
    await works_again(replica)


async def test_a_wrong_password_is_served_around_and_never_shown(make_replica, server, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    await server.order("CONFIG", "SET", "requirepass", "right")
    wrong = StoreAddress(host="127.0.0.1", port=server.port, password="wr0ng-word")
    replica = await make_replica(address=wrong, loaded=False)
    for number in range(10):
        assert (await replica.ask(str(number)))[1] is MISS
    assert not replica.tiers.shared.reachable
    await server.order_with("right", "CONFIG", "SET", "requirepass", "wr0ng-word")
    await works_again(replica)
    assert not lines(caplog, "wr0ng-word")


@pytest.mark.parametrize("contents", ["foreign", "truncated", "other version", "another entry"])
async def test_contents_that_are_not_ours_read_as_absent(make_replica, server, contents) -> None:
    replica = await make_replica()
    await replica.ask("one")
    await replica.ask("two")
    await replica.written()
    ids = await replica.tiers.shared.store.ids("a", 0)
    async with server.client() as client:
        keys = [f"ferry:1:svc:e:{entry_id}" for entry_id in ids]
        values = [await client.get(key) for key in keys]
        for position, key in enumerate(keys):
            whole = values[position]
            forged = {
                "foreign": b"hello",
                "truncated": whole[:-5],
                "other version": whole[:3] + b"\x63" + whole[4:],
                "another entry": values[1 - position],
            }[contents]
            await client.set(key, forged)
    replica.tiers.local.purge(lambda _: True)
    assert (await replica.ask("one"))[1] is MISS
    assert (await replica.ask("one"))[1] is EXACT


@pytest.mark.parametrize("kind", ["string", "list"])
@pytest.mark.parametrize("key", ["tenants", "t:a", "events", "e:*"])
async def test_foreign_kinds_of_keys_are_served_around_and_replaced(make_replica, server, key, kind) -> None:
    one, two = await make_replica(), await make_replica()
    await one.ask("before")
    await one.written()
    ids = await one.tiers.shared.store.ids("a", 0)
    name = f"ferry:1:svc:e:{ids[0]}" if key == "e:*" else f"ferry:1:svc:{key}"
    await server.order("DEL", name)
    await server.order(*(("SET", name, "x") if kind == "string" else ("RPUSH", name, "x")))
    assert [(await one.ask("q"))[1] for _ in range(2)] == [MISS, EXACT]
    await works_again(one)
    said, _ = await one.ask("after")
    await one.written()
    assert await two.ask("after") == (said, EXACT)
    assert one.tiers.shared.writable
    await until(lambda: two.tiers.freshness is Freshness.FRESH)


async def test_a_foreign_stream_is_replaced_though_nothing_is_written(make_replica, server) -> None:
    replica = await make_replica()
    await server.order("DEL", "ferry:1:svc:events")
    await server.order("SET", "ferry:1:svc:events", "x")

    async def replaced() -> bool:
        return await server.order("TYPE", "ferry:1:svc:events") == b"none"

    await until(replaced)
    await until(lambda: replica.tiers.freshness is Freshness.FRESH)


async def test_foreign_events_are_skipped(make_replica, server) -> None:
    one, two = await make_replica(), await make_replica()
    for kind, data in [("put", "junk"), ("purge", "junk"), ("other", "")]:
        await server.order("XADD", "ferry:1:svc:events", "*", "k", kind, "d", data)
    await server.order("XADD", "ferry:1:svc:events", "*", "unknown", "field")
    await one.ask()
    await until(lambda: len(two.tiers.local) == 1)


async def test_a_store_that_is_absent_from_the_start(make_replica, server) -> None:
    server.kill()
    replica = await make_replica(loaded=False)
    assert [(await replica.ask())[1] for _ in range(2)] == [MISS, EXACT]
    server.start()
    await works_again(replica)


async def test_waiting_for_our_own_connections_does_not_open_the_breaker(make_replica, server) -> None:
    replica = await make_replica()
    store = replica.tiers.shared.store
    taken = [asyncio.create_task(store._gate._places.acquire()) for _ in range(16)]
    await asyncio.gather(*taken)
    for number in range(6):
        assert (await replica.ask(str(number)))[1] is MISS
    assert replica.tiers.shared.reachable
    assert replica.metrics.pool_waits._value.get() >= 6
    for _ in taken:
        store._gate._places.release()


async def test_under_load_nothing_fails_while_the_store_dies_hangs_and_returns(make_replica, server) -> None:
    replica = await make_replica()
    stop = asyncio.Event()
    asked = 0

    async def client(name: int) -> None:
        nonlocal asked
        number = 0
        while not stop.is_set():
            number += 1
            said, _ = await replica.ask(f"{name}-{number % 7}")
            assert said
            asked += 1
            await asyncio.sleep(0.002)

    clients = [asyncio.create_task(client(name)) for name in range(8)]
    for fault, cure in [(server.kill, server.start), (server.freeze, server.thaw)]:
        await asyncio.sleep(0.3)
        fault()
        await asyncio.sleep(0.7)
        cure()
        await until(lambda: replica.tiers.shared.reachable)
    stop.set()
    await asyncio.gather(*clients)
    assert asked > 100
    await works_again(replica)
    replica.tiers.forget(Scope())


async def test_a_store_that_was_started_anew_is_given_back_what_it_lost(make_replica, server, caplog) -> None:
    """Without a generation, on every replica, and for one that comes later."""
    caplog.set_level(logging.INFO, "ferry_runtime.cache")
    one, two = await make_replica(), await make_replica()
    said = [(await one.ask(str(number)))[0] for number in range(250)]
    await one.written()
    await until(lambda: len(two.tiers.local) == 250)
    for _ in range(2):
        server.kill()
        await until(lambda: one.tiers.feed.lost and two.tiers.feed.lost)
        for number in range(250):
            assert await two.ask(str(number)) == (said[number], EXACT)
        server.start()
        while one.tiers.feed.lost or two.tiers.feed.lost:  # at no moment of it
            for number in range(0, 250, 25):
                assert await one.ask(str(number)) == (said[number], EXACT)
        assert len(await one.tiers.shared.store.ids("a", 0)) == 250
    later = await make_replica()
    assert await later.ask("7") == (said[7], EXACT)
    assert lines(caplog, "answers put back") >= 2


async def test_what_was_purged_is_not_put_back_by_a_replica_that_had_not_heard(make_replica, server) -> None:
    """The old store took the order to its grave before the other replica had read it."""
    one, two = await make_replica(), await make_replica()
    await one.ask("secret")
    kept, _ = await one.ask("kept", tenant="b")
    await one.written()
    await until(lambda: len(two.tiers.local) == 2)
    held = list(two.tiers.local)
    await one.layer.orders.forget(Scope(tenant="a"))
    await until(lambda: len(two.tiers.local) == 1)
    for entry in held:
        two.tiers.local.put(entry)
    server.kill()
    await until(lambda: one.tiers.feed.lost and two.tiers.feed.lost)
    server.start()
    await until(lambda: not one.tiers.feed.lost and not two.tiers.feed.lost)

    async def forgotten() -> bool:
        return not await one.tiers.shared.store.ids("a", 0) and len(two.tiers.local) == 1

    await until(forgotten)
    assert (await two.ask("secret"))[1] is MISS
    assert await one.ask("kept", tenant="b") == (kept, EXACT)


async def test_a_replica_that_was_stopped_puts_nothing_back(make_replica, server) -> None:
    """It cannot know what was ordered meanwhile."""
    one = await make_replica()
    await one.ask()
    await one.written()
    await asyncio.sleep(1.1)  # entries younger than a second may still be on their way to the store
    one.tiers.feed._caught_up -= 10.0
    server.kill()
    await until(lambda: one.tiers.feed.lost)
    server.start()
    await until(lambda: not one.tiers.feed.lost)
    assert await one.tiers.shared.store.ids("a", 0) == []
    assert (await one.ask())[1] is MISS


async def test_without_the_right_to_ask_which_server_it_is_a_restart_reads_as_emptied(
    make_replica, server
) -> None:
    await server.order("ACL", "SETUSER", "default", "-info")
    one = await make_replica()
    await one.ask()
    await one.written()
    await asyncio.sleep(1.1)  # entries younger than a second may still be on their way to the store
    server.kill()
    await until(lambda: one.tiers.feed.lost)
    server.start()
    await until(lambda: not one.tiers.feed.lost)
    assert (await one.ask())[1] is MISS
