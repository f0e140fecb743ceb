"""What one replica learns of an entry, the others know; so does one that starts later."""

from __future__ import annotations

import time

import pytest
from tests.integration.runtime.cache.conftest import Replica, until

from ferry_runtime.cache.control import CacheControl, Caller
from ferry_runtime.cache.entry import Entry
from ferry_runtime.cache.labels import encode

ADMIN = Caller("ops", admin=True)


async def stored(replica: Replica, text: str = "What is a ferry?") -> Entry:
    await replica.ask(text)
    await replica.written()
    (held,) = [entry for entry in replica.tiers.local.ids() if not known(replica, entry)][-1:]
    entry = replica.tiers.held(held, time.time())
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
    expected = known(one, entry.id)
    assert expected is not None
    assert expected < 0.6
    await until(lambda: known(two, entry.id) == expected)
    three = await make_replica()
    assert known(three, entry.id) == expected


@pytest.mark.parametrize("order", ["entry", "tenant"])
async def test_a_purge_takes_labels_everywhere_and_for_later_replicas(make_replica, order: str) -> None:
    one, two = await make_replica(), await make_replica()
    entry = await stored(one)
    await one.tiers.judge(entry, encode(0.4, right=False))
    await until(lambda: known(two, entry.id) is not None)
    control = CacheControl(two.layer)
    if order == "entry":
        await control.delete_entry(entry.id, ADMIN)
    else:
        await control.delete(ADMIN, tenant="a")
    await until(lambda: known(one, entry.id) is None)
    assert known(two, entry.id) is None
    assert known(await make_replica(), entry.id) is None


async def test_a_label_that_the_store_cannot_take_counts_here(make_replica, server) -> None:
    one = await make_replica()
    entry = await stored(one)
    server.kill()
    await one.tiers.judge(entry, encode(0.4, right=False))
    assert known(one, entry.id) is not None
