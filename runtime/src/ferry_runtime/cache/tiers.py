"""Where answers are kept: this process, the shared store, the semantic index. One place that keeps
the three in step: what is stored, expires or is purged here is so in all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ferry_api.runtime_config import Verifier
from ferry_runtime.cache import messages, policy
from ferry_runtime.cache.entry import Entry, decode, decode_as, encode
from ferry_runtime.cache.feed import Feed, Freshness
from ferry_runtime.cache.labels import Labels
from ferry_runtime.cache.local import Drop, Held, LocalStore
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.putback import put_back
from ferry_runtime.cache.shared import SharedTier
from ferry_runtime.cache.tasks import end
from ferry_runtime.errors import StoreError, StoreUnavailable
from ferry_runtime.store.address import StoreAddress
from ferry_runtime.store.redis_store import Record

if TYPE_CHECKING:
    from ferry_runtime.cache.semantic.compared import Compared

_SLICE = 2_000  # entries looked at a second for having expired


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry whose question is near to this one: ``similarity`` is the cosine, ``score`` the verifier's,
    None where it was not asked or needed none."""

    entry_id: str
    similarity: float
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """``accepted`` may answer, most similar first. ``doubtful``: where none may, the best one that was
    neither accepted nor rejected."""

    accepted: tuple[Candidate, ...] = ()
    doubtful: Candidate | None = None


class Index(Protocol):
    """The semantic tier's memory: vectors and questions, no answers."""

    max_entries: int

    def add(self, entry: Entry) -> None: ...

    def discard(self, entry_id: str) -> None: ...

    def __contains__(self, entry_id: str) -> bool: ...

    def expiry(self, entry_id: str) -> float | None: ...

    def __len__(self) -> int: ...

    def ids(self) -> list[str]: ...

    def sweep(self, now: float, among: Iterable[str]) -> None: ...

    def purge(self, scope: messages.Scope) -> int: ...

    def keep_only(self, alive: set[str], created_before: float) -> None: ...


class Semantic(Protocol):
    """Finds entries that answer a question asked in other words."""

    def wake(self) -> None:
        """The cache is in use: load what is needed, in the background. Cheap when done before."""
        ...

    async def stop(self) -> None: ...

    @property
    def fingerprint(self) -> str:
        """Of the embedder; empty while there is none, and then nothing semantic happens."""
        ...

    async def find(self, question: str, partition: bytes, threshold: float, verifier: Verifier) -> Found:
        """Never raises."""
        ...

    def last_score(self, entry_id: str) -> float | None:
        """The verifier's score of the entry's latest hit here; None: there was none."""
        ...

    def expect(self, question: str, partition: bytes) -> None:
        """`find` may follow: as `prepare`, where the partition has anything to find."""
        ...

    def prepare(self, question: str) -> None:
        """Start embedding it, in the background, unless that is done or under way."""
        ...

    def compared(self) -> list[Compared]:
        """The latest comparisons of questions, newest first."""
        ...

    def at_hand(self, question: str) -> bytes | None:
        """As `vector`, without any wait: None also while it is being embedded."""
        ...

    async def vector(self, question: str) -> bytes | None:
        """The unit embedding in little-endian float16; None where the tier stays out. Never raises."""
        ...


class Tiers:
    """Without a shared store this process is the only truth; with one, the store is."""

    def __init__(
        self,
        local: LocalStore,
        metrics: CacheMetrics,
        replica: str,
        *,
        shared: SharedTier | None = None,
        index: Index | None = None,
        labels: Labels | None = None,
    ) -> None:
        self.local = local
        self.shared = shared
        self.index = index
        self.labels = labels
        self._metrics = metrics
        self._replica = replica
        self.on_restarted: Callable[[], None] = lambda: None  # the store is another one, given our answers
        self._sweeper: asyncio.Task[None] | None = None
        local.on_drop = self._dropped
        self.feed = (
            Feed(
                shared.store,
                replica,
                held=self._held_until,
                on_entry=self._learn,
                on_gone=self._gone,
                on_purge=self.forget,
                on_judged=self._learn_label,
                on_reconciled=self._keep_only,
                on_restarted=self._put_back,
                purges=lambda: local.purges,
            )
            if shared is not None
            else None
        )

    async def start(self) -> None:
        self._sweeper = asyncio.create_task(self._sweep())
        if self.shared is not None and self.feed is not None:
            await self.shared.start()
            await self.feed.start()

    async def stop(self) -> None:
        await end(self._sweeper)
        if self.shared is not None and self.feed is not None:
            await self.feed.stop()
            await self.shared.stop()

    async def move(self, address: StoreAddress) -> None:
        """Go on with the shared store at another address, or with other credentials."""
        if self.shared is None or self.feed is None or address == self.shared.store.address:
            return
        if address.place != self.shared.store.address.place:
            self.feed.start_over()
        await self.shared.store.move(address)

    @property
    def freshness(self) -> Freshness:
        return self.feed.freshness() if self.feed is not None else Freshness.FRESH

    def at_hand(self, entry_id: str, now: float) -> Entry | None:
        """From this process alone, while no purge can have passed it by."""
        if self.freshness is not Freshness.FRESH:
            return None
        return _read(self.local.get(entry_id, now))

    async def fetch(self, entry_id: str, now: float) -> Entry | None:
        """From this process or the store; absent, expired or unreadable is None.

        Never raises: while the store does not answer, what this process has is served for as long
        as it may be trusted (see `Freshness`)."""
        try:
            return await self.look_up(entry_id, now)
        except StoreError:
            if self.freshness is Freshness.STALE:
                return None
            return self.held(entry_id, now)

    def held(self, entry_id: str, now: float) -> Entry | None:
        """From this process, whether or not a purge may have passed it by: to know, not to serve."""
        return _read(self.local.get(entry_id, now))

    async def look_up(self, entry_id: str, now: float) -> Entry | None:
        """As `fetch`, but raises StoreError where only the store could say."""
        found = self.at_hand(entry_id, now)
        if found is not None or self.shared is None or self.feed is None:
            return found
        purges = self.local.purges
        body = await self.shared.get(entry_id)
        entry = decode_as(entry_id, body, now)
        if entry is None and self.feed.cut_off:
            # The store is back, perhaps without its contents, and is about to be given ours.
            raise StoreUnavailable("changes at the store are not being followed yet")
        if entry is None:
            self._gone(entry_id)
        elif body is not None and purges == self.local.purges:
            self._learn(entry, body)
        return entry

    def resize(self, max_entries: int) -> None:
        """Follow a changed setting; what is too much goes with the next entry."""
        self.local.max_entries = max_entries
        if self.index is not None:
            self.index.max_entries = max_entries

    def keep(self, entry: Entry) -> bool:
        """In this process, at once: the next request finds it. False: too large to be kept anywhere."""
        body = encode(entry)
        if len(body) > policy.MOST_BYTES:
            return False
        self._learn(entry, body)
        return True

    async def publish(self, entry: Entry, quota: int) -> None:
        """To every replica. Raises StoreError."""
        if self.shared is None:
            return
        record = Record(
            id=entry.id,
            tenant=entry.owner,
            expires=entry.expires,
            body=encode(entry),
            event=messages.encode(messages.Stored(self._replica, entry.id)),
        )
        over = await self.shared.put(record, now=time.time(), quota=quota)
        if over:
            scope = messages.Scope(tenant=entry.owner, ids=frozenset(over))
            self.forget(scope)
            await self.shared.store.remove({entry.owner: over}, messages.encode(scope))

    async def judge(self, entry: Entry, label: int) -> None:
        """Learn a label of an entry, with every other replica. It comes back through the stream, so that it
        counts in the same order as the orders to forget do; while that cannot be, it counts here alone."""
        judged = messages.Judged(entry.id, entry.owner, entry.model, entry.expires, label)
        if self.shared is not None and self.shared.writable:
            try:
                await self.shared.store.announce("label", messages.encode(judged))
            except StoreError:
                pass
            else:
                return
        self._learn_label(judged)

    async def withdraw(self, entry: Entry) -> None:
        """Take back a publication that crossed an order to forget. Raises StoreError."""
        if self.shared is not None:
            scope = messages.Scope(tenant=entry.owner, ids=frozenset({entry.id}))
            await self.shared.store.remove({entry.owner: [entry.id]}, messages.encode(scope))

    def forget(self, scope: messages.Scope) -> int:
        """Drop from this process what an order covers; returns how many entries it held."""
        gone = self.local.purge(
            lambda held: scope.covers(entry_id=held.id, tenant=held.owner, model=held.model), scope.ids
        )
        if self.labels is not None:
            self.labels.purge(scope)
        return max(gone, self.index.purge(scope) if self.index is not None else 0)

    async def _sweep(self) -> None:
        """Free expired entries, a slice a second, so that no request waits for it."""
        while True:
            for holder in (self.local, self.index):
                ids = holder.ids() if holder is not None else []
                for start in range(0, len(ids), _SLICE):
                    await asyncio.sleep(1.0)
                    if holder is not None:
                        holder.sweep(time.time(), ids[start : start + _SLICE])
            if self.labels is not None:
                self.labels.sweep(time.time())
            self._gauge()
            await asyncio.sleep(1.0)

    def _learn_label(self, judged: messages.Judged) -> None:
        if self.labels is not None:
            self.labels.add(judged, time.time())

    def _learn(self, entry: Entry, body: bytes) -> None:
        self.local.put(Held.of(entry, body))
        if self.index is not None and entry.partition and entry.vector:
            self.index.add(entry)
        self._gauge()

    def _gone(self, entry_id: str) -> None:
        """The store does not have it, so no other version of it may be served."""
        self.local.drop(entry_id, Drop.PURGED)
        if self.index is not None:
            self.index.discard(entry_id)

    def _held_until(self, entry_id: str) -> float | None:
        """An evicted answer may still stand in the index, and is worth no second fetch."""
        expires = self.local.expiry(entry_id)
        return self.index.expiry(entry_id) if expires is None and self.index is not None else expires

    async def _put_back(self, up_to_date: bool) -> set[str]:
        assert self.shared is not None  # noqa: S101 - only a feed, so only a store, calls this
        back = await put_back(self.local, self.shared.store) if up_to_date else set()
        self.on_restarted()
        return back

    def _keep_only(self, alive: set[str], began: float) -> None:
        """After a reconciliation; entries newer than it may not have reached the store yet."""
        self.local.purge(lambda held: held.id not in alive and held.created < began - 1)
        if self.index is not None:
            self.index.keep_only(alive, began - 1)
        self._metrics.index_ready.set(1)
        self._gauge()

    def _dropped(self, held: Held, reason: Drop) -> None:
        # An evicted answer is still in the store, and the index may still find it there.
        if self.index is not None and not (reason is Drop.EVICTED and self.shared is not None):
            self.index.discard(held.id)

    def _gauge(self) -> None:
        self._metrics.entries.set(len(self.local))
        self._metrics.bytes.set(self.local.size)
        self._metrics.indexed.set(len(self.index) if self.index is not None else 0)
        self._metrics.labelled.set(len(self.labels) if self.labels is not None else 0)


def _read(held: Held | None) -> Entry | None:
    return decode(held.body) if held is not None else None
