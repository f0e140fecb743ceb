"""Several replicas, one store: answers, orders and restarts."""

import asyncio

from tests.conftest import until

from ferry_runtime.cache.messages import Scope, encode
from ferry_runtime.generation import CacheOutcome

EXACT, MISS = CacheOutcome.EXACT, CacheOutcome.MISS


async def test_an_answer_by_one_is_a_hit_on_the_other(make_replica) -> None:
    one, two = await make_replica(), await make_replica()
    said, _ = await one.ask()
    await one.written()
    assert await two.ask() == (said, EXACT)
    assert two.generations == 0


async def test_the_other_replica_learns_entries_without_being_asked(make_replica) -> None:
    one, two = await make_replica(), await make_replica()
    await one.ask()
    await until(lambda: len(two.tiers.local) == 1)


async def test_entries_survive_a_restart_of_every_replica(make_replica) -> None:
    one = await make_replica()
    said, _ = await one.ask()
    await one.layer.stop()
    other = await make_replica()
    assert len(other.tiers.local) == 1
    assert await other.ask() == (said, EXACT)


async def test_a_purge_reaches_the_other_replica(make_replica) -> None:
    one, two = await make_replica(), await make_replica()
    await one.ask()
    await until(lambda: len(two.tiers.local) == 1)
    scope = Scope(tenant="a")
    ids = await one.tiers.shared.store.ids("a", 0)
    await one.tiers.shared.store.remove({"a": ids}, encode(scope))
    await until(lambda: len(two.tiers.local) == 0)
    assert (await two.ask())[1] is MISS


async def test_a_purge_spares_other_tenants_on_every_replica(make_replica) -> None:
    one, two = await make_replica(), await make_replica()
    await one.ask(tenant="a")
    said, _ = await one.ask(tenant="b")
    await until(lambda: len(two.tiers.local) == 2)
    ids = await one.tiers.shared.store.ids("a", 0)
    await one.tiers.shared.store.remove({"a": ids}, encode(Scope(tenant="a")))
    await until(lambda: len(two.tiers.local) == 1)
    assert await two.ask(tenant="b") == (said, EXACT)


async def test_a_replica_behind_a_trimmed_stream_reads_everything_anew(make_replica, server) -> None:
    one, two = await make_replica(), await make_replica()
    await two.tiers.feed.stop()
    await one.ask("first")
    await one.ask("second")
    await one.written()
    await server.order("XTRIM", "ferry:1:svc:events", "MAXLEN", "0")
    await one.ask("third")
    await one.written()
    await two.tiers.feed.start()
    await until(lambda: len(two.tiers.local) == 3)


async def test_a_store_emptied_by_others_empties_every_replica(make_replica, server) -> None:
    one = await make_replica()
    await one.ask()
    await one.written()
    await asyncio.sleep(1.1)  # entries younger than a second may still be on their way to the store
    await server.order("FLUSHALL")
    await until(lambda: len(one.tiers.local) == 0)


async def test_a_tenants_room_in_the_store_is_bounded(make_replica, server) -> None:
    one, two = await make_replica(max_entries=4), await make_replica(max_entries=4)
    for number in range(8):
        await one.ask(str(number))
    await one.written()
    assert len(await one.tiers.shared.store.ids("a", 0)) == 4
    await until(lambda: len(two.tiers.local) == 4)


async def test_what_is_purged_while_it_is_being_written_stays_purged(make_replica) -> None:
    one = await make_replica()
    await one.ask()
    one.tiers.forget(Scope(tenant="a"))  # before the writer has had its turn
    await one.written()
    assert await one.tiers.shared.store.ids("a", 0) == []


async def test_expiry_is_absolute_on_every_replica(make_replica) -> None:
    one, two = await make_replica(ttl_seconds=0.5), await make_replica()
    await one.ask()
    await until(lambda: len(two.tiers.local) == 1)
    await asyncio.sleep(0.6)
    assert (await two.ask())[1] is MISS


async def test_tenants_never_meet_in_the_store(make_replica) -> None:
    one, two = await make_replica(), await make_replica()
    await one.ask(tenant="a")
    await one.written()
    assert (await two.ask(tenant="b"))[1] is MISS


async def test_a_hundred_identical_requests_on_two_replicas_make_at_most_one_generation_each(
    make_replica,
) -> None:
    one, two = await make_replica(), await make_replica()
    results = await asyncio.gather(*(replica.ask() for replica in (one, two) for _ in range(50)))
    assert one.generations <= 1
    assert two.generations <= 1
    assert len({said for said, _ in results}) <= 2


async def test_a_replica_woken_from_a_long_stop_serves_nothing_that_was_purged(
    make_replica, monkeypatch
) -> None:
    one, two = await make_replica(), await make_replica()
    await one.ask()
    await until(lambda: len(two.tiers.local) == 1)
    await two.tiers.feed.stop()  # as a stopped process: nothing is read from the stream
    ids = await one.tiers.shared.store.ids("a", 0)
    await one.tiers.shared.store.remove({"a": ids}, encode(Scope(ids=frozenset(ids))))
    two.tiers.feed._caught_up -= 5.0
    assert (await two.ask())[1] is MISS


async def test_reading_anew_tells_a_new_answer_from_an_old_one_of_the_same_request(
    make_replica, server
) -> None:
    """A wrong answer was evicted and made again while this replica heard nothing of it."""
    one, two = await make_replica(), await make_replica()
    wrong, _ = await one.ask()
    await until(lambda: len(two.tiers.local) == 1)
    await two.tiers.feed.stop()
    ids = await one.tiers.shared.store.ids("a", 0)
    one.tiers.forget(Scope(tenant="a"))
    await one.tiers.shared.store.remove({"a": ids}, encode(Scope(tenant="a")))
    right, _ = await one.ask()
    await one.written()
    assert right != wrong
    await server.order("XTRIM", "ferry:1:svc:events", "MAXLEN", "0")
    await one.ask("one more")
    await one.written()
    await two.tiers.feed.start()
    await until(lambda: len(two.tiers.local) == 2)
    assert await two.ask() == (right, EXACT)


async def test_reading_anew_fetches_nothing_that_is_held_already(make_replica, monkeypatch) -> None:
    one = await make_replica()
    await one.ask()
    await one.written()
    fetched: list[str] = []
    store, real = one.tiers.shared.store, one.tiers.shared.store.get_many

    async def get_many(entry_ids):
        fetched.extend(entry_ids)
        return await real(entry_ids)

    monkeypatch.setattr(store, "get_many", get_many)
    await one.tiers.feed._reconcile()
    assert fetched == []
