"""A replica trusts what it holds only once it has heard everything that was announced."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from tests.conftest import until
from tests.integration.runtime.cache.conftest import Replica

from ferry_runtime.cache import feed
from ferry_runtime.cache.feed import Freshness
from ferry_runtime.cache.messages import Scope, encode
from ferry_runtime.generation import CacheOutcome

MISS = CacheOutcome.MISS


class Gate:
    """Lets a replica's reads of the stream through one at a time."""

    def __init__(self, replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
        store = replica.tiers.shared.store
        self._read = store.events
        self._allowed = asyncio.Semaphore(0)
        self.reads = 0
        monkeypatch.setattr(store, "events", self._events)

    async def _events(self, after: str, wait: float, limit: int = 500):
        await self._allowed.acquire()
        found = await self._read(after, wait, limit)
        self.reads += 1
        return found

    async def let_through(self, reads: int) -> None:
        wanted = self.reads + reads
        for _ in range(reads):
            self._allowed.release()
        await until(lambda: self.reads >= wanted)
        await asyncio.sleep(0.05)  # what was read is applied


async def purge(replica: Replica) -> None:
    ids = await replica.tiers.shared.store.ids("a", 0)
    await replica.tiers.shared.store.remove({"a": ids}, encode(Scope(tenant="a")))


async def test_a_backlog_is_read_to_its_end_before_anything_is_trusted(make_replica, monkeypatch) -> None:
    monkeypatch.setattr(feed, "_EVENTS", 5)
    one, two = await make_replica(), await make_replica()
    await one.ask()
    await until(lambda: len(two.tiers.local) == 1)
    gate = Gate(two, monkeypatch)
    await asyncio.sleep(2 * feed._WAIT)  # the read that was under way is over
    two.tiers.feed._caught_up -= 5.0  # as after a long stop
    for number in range(12):
        await one.ask(str(number), tenant="b")
    await one.written()
    await purge(one)
    await gate.let_through(1)
    assert two.tiers.freshness is Freshness.DOUBTFUL
    assert (await two.ask())[1] is MISS
    await gate.let_through(3)
    assert two.tiers.freshness is Freshness.FRESH


async def test_an_answer_that_waited_for_a_stopped_process_proves_nothing(make_replica, monkeypatch) -> None:
    """SIGSTOP while a read of the stream is under way: on waking its old answer is found first."""
    replica = await make_replica()
    following, store = replica.tiers.feed, replica.tiers.shared.store
    await following.stop()
    stopped, read = 0.0, store.events
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + stopped, time=time.time)
    monkeypatch.setattr(feed, "time", clock)

    async def events(after: str, wait: float, limit: int = 500):
        nonlocal stopped
        found = await read(after, wait, limit)
        stopped += 10.0
        return found

    with monkeypatch.context() as patch:
        patch.setattr(store, "events", events)
        await following._follow()
    assert replica.tiers.freshness is Freshness.DOUBTFUL
    await following._follow()
    assert replica.tiers.freshness is Freshness.FRESH


async def test_looking_for_gaps_and_reading_anew_prove_nothing(make_replica) -> None:
    replica = await make_replica()
    await replica.ask()
    await replica.written()
    following = replica.tiers.feed
    await following.stop()
    following._caught_up -= 5.0
    assert not await following._gap(following._cursor)
    assert replica.tiers.freshness is Freshness.DOUBTFUL
    replica.tiers.local.purge(lambda _: True)
    await following._reconcile()
    assert replica.tiers.freshness is Freshness.DOUBTFUL
    await following._follow()
    assert replica.tiers.freshness is Freshness.FRESH
