"""What one replica learns of an entry, the others know; so does one that starts later."""

from __future__ import annotations

import time

import pytest
from tests.conftest import until
from tests.integration.runtime.cache.conftest import Replica

from ferry_runtime.cache.control import CacheControl, Caller
from ferry_runtime.cache.entry import Entry
from ferry_runtime.cache.labels import Labels, encode
from ferry_runtime.cache.messages import Judged
from ferry_runtime.generation import CacheOutcome

ADMIN = Caller("ops", admin=True)


async def stored(replica: Replica, text: str = "What is a ferry?") -> Entry:
    await replica.ask(text)
    await replica.written()
    (entry_id,) = replica.tiers.local.ids()
    entry = replica.tiers.held(entry_id, time.time())
    assert entry is not None
    return entry


def known(replica: Replica, entry_id: str) -> float | None:
    assert replica.tiers.labels is not None
    return replica.tiers.labels.threshold(entry_id, time.time())


async def test_a_label_reaches_every_replica_and_later_ones(make_replica) -> None:
    one, two = await make_replica(), await make_replica()
    entry = await stored(one)
    for _ in range(5):
        await one.tiers.judge(entry, encode(0.4, right=True))
    expected = Labels(lambda: (0.6, 0.05))
    for _ in range(5):
        expected.add(Judged(entry.id, "a", "m", entry.expires, encode(0.4, right=True)), time.time())
    threshold = expected.threshold(entry.id, time.time())
    assert threshold is not None
    assert threshold < 0.6
    await until(lambda: known(one, entry.id) == known(two, entry.id) == threshold)
    three = await make_replica()
    assert known(three, entry.id) == threshold


@pytest.mark.parametrize("order", ["entry", "tenant"])
async def test_a_purge_takes_labels_everywhere_and_for_later_replicas(make_replica, order: str) -> None:
    one, two = await make_replica(), await make_replica()
    entry = await stored(one)
    await one.tiers.judge(entry, encode(0.4, right=False))
    await until(lambda: known(one, entry.id) is not None and known(two, entry.id) is not None)
    control = CacheControl(two.layer)
    if order == "entry":
        await control.delete_entry(entry.id, ADMIN)
    else:
        await control.delete(ADMIN, tenant="a")
    await until(lambda: known(one, entry.id) is None)
    await until(lambda: known(two, entry.id) is None)
    assert known(await make_replica(), entry.id) is None


async def test_a_label_that_the_store_cannot_take_counts_here(make_replica, server) -> None:
    one = await make_replica()
    entry = await stored(one)
    server.kill()
    await one.tiers.judge(entry, encode(0.4, right=False))
    assert known(one, entry.id) is not None


async def test_a_verdict_outlasts_the_eviction_that_it_ordered(make_replica) -> None:
    one, two = await make_replica(), await make_replica()
    entry = await stored(one)
    one.layer.labeller.last_score = lambda _: 0.7
    await CacheControl(one.layer).feedback(entry.id, "wrong", Caller("a"))
    await until(lambda: (known(one, entry.id) or 0) > 0.7 and (known(two, entry.id) or 0) > 0.7)
    assert one.tiers.held(entry.id, time.time()) is None
    assert (await one.ask())[1] is CacheOutcome.MISS
    assert (known(one, entry.id) or 0) > 0.7
