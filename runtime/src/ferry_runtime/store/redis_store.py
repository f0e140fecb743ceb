"""Entries, their per-tenant registers and the stream of changes, on plain Redis or Valkey ≥ 6.2.

Keys, all under ``ferry:1:<namespace>:``
- ``e:<id>``       a sealed entry, with its absolute expiry
- ``t:<tenant>``   sorted set of that tenant's entry ids by expiry: quotas and scoped deletion
- ``tenants``      set of tenant names
- ``events``       stream of changes that every replica follows
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ferry_runtime.errors import StoreMisused, StoreRefused
from ferry_runtime.store.address import StoreAddress
from ferry_runtime.store.client import Gate, connect
from ferry_runtime.store.frame import FrameError, seal, unseal

STREAM_LENGTH = 20_000  # events kept; a replica that is further behind reads everything anew
MOST_TRIMMED = 200  # entries beyond a quota that one write names; a lowered quota is reached in steps
_CHUNK = 500  # entries removed in one transaction: neither side is held up by a large order


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the stream. ``kind`` and ``data`` are the cache's own vocabulary."""

    position: str
    kind: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is written for one entry. ``expires`` is in Unix seconds."""

    id: str
    tenant: str
    expires: float
    body: bytes
    event: bytes


class RedisStore:
    """Every method may raise StoreUnavailable, StoreRefused or StoreBusy, within ``deadline`` s."""

    def __init__(
        self,
        address: StoreAddress,
        namespace: str,
        *,
        deadline: float = 0.08,
        slow_deadline: float = 2.0,
        connections: int = 16,
    ) -> None:
        self.address = address
        self._prefix = f"ferry:1:{namespace}:"
        self._deadline = deadline
        self._slow = slow_deadline
        self._gate = Gate(connections)
        self._feed_gate = Gate(1)
        self._connections = connections
        self._redis = self._connect()

    async def close(self) -> None:
        await _close(self._redis)

    async def move(self, address: StoreAddress) -> None:
        """Go on at another address. With other credentials alone, open connections stay: the server
        keeps them, and may not know the new ones yet. Returns when the old place has been left."""
        same_place = address.place == self.address.place
        self.address = address
        if same_place:
            return
        left, self._redis = self._redis, self._connect()
        try:
            await asyncio.sleep(self._slow + 1.0)  # calls that are under way end by then
        finally:
            await _close(left)

    async def ping(self) -> None:
        await self._gate.call(self._redis.ping, self._deadline)

    async def run_id(self) -> str | None:
        """Tells one life of the server from the next; None where this account may not ask."""
        try:
            told: dict[str, str] = await self._gate.call(lambda: self._redis.info("server"), self._slow)
        except StoreRefused:
            return None
        return told.get("run_id")

    async def get(self, entry_id: str) -> bytes | None:
        """The entry's body; None for a missing key and for contents that are not ours."""
        found = await self._gate.call(lambda: self._redis.get(self._entry(entry_id)), self._deadline)
        return _open(found)

    async def get_many(self, entry_ids: Sequence[str]) -> list[bytes | None]:
        if not entry_ids:
            return []
        keys = [self._entry(entry_id) for entry_id in entry_ids]
        found = await self._gate.call(lambda: self._redis.mget(keys), self._slow)
        return [_open(value) for value in found]

    async def put(self, record: Record, *, now: float, quota: int) -> list[str]:
        """Write, register, announce, in one transaction. Returns ids that the tenant now has beyond
        ``quota``, soonest to expire first and never the one just written; the caller removes them."""
        register = self._tenant(record.tenant)

        async def write() -> list[Any]:
            async with self._redis.pipeline(transaction=True) as batch:
                batch.set(self._entry(record.id), seal(record.body), pxat=int(record.expires * 1000))
                batch.sadd(self._prefix + "tenants", record.tenant)
                batch.zadd(register, {record.id: record.expires})
                batch.zremrangebyscore(register, "-inf", now)
                batch.zcard(register)
                self._announce(batch, "put", record.event)
                replies: list[Any] = await batch.execute()
                return replies

        try:
            replies = await self._gate.call(write, self._slow)
        except StoreMisused:
            await self.remove_foreign()
            replies = await self._gate.call(write, self._slow)
        over = min(int(replies[4]) - quota, MOST_TRIMMED)
        if over <= 0:
            return []
        oldest = await self._gate.call(lambda: self._redis.zrange(register, 0, over), self._slow)
        # The new one is the first to expire where the time to live has been lowered.
        return [item.decode() for item in oldest if item.decode() != record.id][:over]

    async def restore(self, records: Sequence[Record]) -> None:
        """Write what the store has lost, keeping whatever it has by now. Announces nothing."""

        async def write() -> None:
            async with self._redis.pipeline(transaction=False) as batch:
                for record in records:
                    expires = int(record.expires * 1000)
                    batch.set(self._entry(record.id), seal(record.body), pxat=expires, nx=True)
                    batch.zadd(self._tenant(record.tenant), {record.id: record.expires}, nx=True)
                batch.sadd(self._prefix + "tenants", *{record.tenant for record in records})
                await batch.execute()

        await self._gate.call(write, self._slow)

    async def remove(self, ids_by_tenant: dict[str, list[str]], event: bytes) -> int:
        """Remove entries, then tell every replica. Returns how many existed."""
        removed = 0
        for tenant, ids in ids_by_tenant.items():
            for start in range(0, len(ids), _CHUNK):
                removed += await self._remove(tenant, ids[start : start + _CHUNK])
        await self.announce("purge", event)
        return removed

    async def announce(self, kind: str, data: bytes) -> None:
        """Tell every replica something, without writing anything else."""

        async def write() -> None:
            async with self._redis.pipeline(transaction=False) as batch:
                self._announce(batch, kind, data)
                await batch.execute()

        await self._gate.call(write, self._slow)

    async def _remove(self, tenant: str, ids: Sequence[str]) -> int:
        async def write() -> list[Any]:
            async with self._redis.pipeline(transaction=True) as batch:
                batch.unlink(*(self._entry(entry_id) for entry_id in ids))
                batch.zrem(self._tenant(tenant), *ids)
                replies: list[Any] = await batch.execute()
                return replies

        unlinked, _ = await self._gate.call(write, self._slow)
        return int(unlinked)

    async def remove_foreign(self) -> None:
        """Whatever stands under a key of ours and is of another kind than we keep there: nothing could
        be written or announced while it does. An entry's own key needs no such care: writing replaces it."""
        kinds = {self._prefix + "tenants": "set", self._prefix + "events": "stream"}
        await self._remove_unless(kinds)
        await self._remove_unless({self._tenant(tenant): "zset" for tenant in await self.tenants()})

    async def _remove_unless(self, kinds: dict[str, str]) -> None:
        async def look() -> list[Any]:
            async with self._redis.pipeline(transaction=False) as batch:
                for key in kinds:
                    batch.type(key)
                replies: list[Any] = await batch.execute()
                return replies

        found = zip(kinds.items(), await self._gate.call(look, self._slow), strict=True)
        foreign = [key for (key, kind), is_now in found if is_now.decode() not in (kind, "none")]
        if foreign:
            await self._gate.call(lambda: self._redis.unlink(*foreign), self._slow)

    async def tenants(self) -> list[str]:
        found = await self._gate.call(lambda: self._redis.smembers(self._prefix + "tenants"), self._slow)
        return sorted(item.decode(errors="replace") for item in found)

    async def ids(self, tenant: str, now: float) -> list[str]:
        """The tenant's unexpired entries."""
        return list(await self.register(tenant, now))

    async def register(self, tenant: str, now: float) -> dict[str, float]:
        """The same with their expiry in Unix seconds, which tells an entry from a later one of its id."""
        found = await self._gate.call(
            lambda: self._redis.zrangebyscore(self._tenant(tenant), f"({now}", "+inf", withscores=True),
            self._slow,
        )
        return {item.decode(errors="replace"): float(expires) for item, expires in found}

    async def last_position(self) -> str:
        """Where the stream ends now; "0-0" while there is none."""
        newest = await self._gate.call(
            lambda: self._redis.xrevrange(self._prefix + "events", count=1), self._slow
        )
        return newest[0][0].decode() if newest else "0-0"

    async def first_position(self) -> str:
        oldest = await self._gate.call(
            lambda: self._redis.xrange(self._prefix + "events", count=1), self._slow
        )
        return oldest[0][0].decode() if oldest else "0-0"

    async def events(self, after: str, wait: float, limit: int = 500) -> list[Event]:
        """Events past ``after``, waiting up to ``wait`` seconds for the first. A connection of its
        own, so that waiting here never delays a lookup."""
        stream = self._prefix + "events"
        found = await self._feed_gate.call(
            lambda: self._redis.xread({stream: after}, count=limit, block=max(1, int(wait * 1000))),
            wait + 1.0,
        )
        return [
            Event(position.decode(), values.get(b"k", b"").decode(errors="replace"), values.get(b"d", b""))
            for _, items in found or []
            for position, values in items
        ]

    def _connect(self) -> Any:
        return connect(lambda: self.address, connections=self._connections, socket_timeout=self._slow)

    def _announce(self, batch: Any, kind: str, data: bytes) -> None:
        batch.xadd(self._prefix + "events", {"k": kind, "d": data}, maxlen=STREAM_LENGTH, approximate=True)

    def _entry(self, entry_id: str) -> str:
        return f"{self._prefix}e:{entry_id}"

    def _tenant(self, tenant: str) -> str:
        return f"{self._prefix}t:{tenant}"


async def _close(client: Any) -> None:
    await client.aclose()
    await client.connection_pool.disconnect()  # a pool that was passed in is left open


def _open(value: Any) -> bytes | None:
    if not isinstance(value, bytes):
        return None
    try:
        return unseal(value)
    except FrameError:
        return None
