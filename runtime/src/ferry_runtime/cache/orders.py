"""Orders to forget: obeyed here, told to every replica, carried out in the store, and looked after.

A replica that has not heard of an order yet may still publish an answer that the order is about. So
every order is carried out a second time, once all replicas must have heard of it, for what had been
made before it. A store that was started anew may have lost an order that a replica had not heard of
yet, whose answers that replica would put back: every recent order is then given again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine

from ferry_runtime.cache import messages
from ferry_runtime.cache.entry import Entry, decode_as
from ferry_runtime.cache.messages import Scope
from ferry_runtime.cache.tasks import end
from ferry_runtime.cache.tiers import Tiers
from ferry_runtime.errors import StoreError
from ferry_runtime.store.redis_store import RedisStore

log = logging.getLogger(__name__)

_AGAIN_AFTER = 1.0  # seconds within which every replica has heard of an order
_SKEW = 0.25  # seconds that replicas' clocks may differ; forgetting a new answer too is only a miss
_REMEMBERED = 1000  # orders that are given again to a store that was started anew
_BATCH = 200  # entries read, or named in one event


class Orders:
    """Without a shared store this process is all there is to order."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers
        self._second_looks: set[asyncio.Task[None]] = set()
        self._recent: deque[tuple[float, Scope]] = deque(maxlen=_REMEMBERED)
        tiers.on_restarted = self._give_again

    async def forget(self, scope: Scope) -> int:
        """Returns how many entries that were. Raises StoreError when the other replicas or the store
        may not have obeyed; this process has."""
        ordered = time.time()
        gone = self._tiers.forget(scope)
        if self._tiers.shared is None:
            return gone
        store = self._tiers.shared.store
        self._recent.append((ordered, scope))
        await store.announce("purge", messages.encode(scope))
        doomed = await _listed(store, scope)
        if scope.model is not None:
            doomed = {tenant: await _covered(store, ids, scope) for tenant, ids in doomed.items()}
        # Announced once more: what was read from the store between the two is forgotten again.
        removed = await store.remove(doomed, messages.encode(scope))
        self._start(self._look_again(store, scope, ordered + _SKEW))
        return max(gone, removed)

    async def stop(self) -> None:
        for task in list(self._second_looks):
            await end(task)

    def _start(self, look: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(look)
        self._second_looks.add(task)
        task.add_done_callback(self._second_looks.discard)

    def _give_again(self) -> None:
        if self._recent and self._tiers.shared is not None:
            self._start(self._repeat(self._tiers.shared.store, list(self._recent)))

    async def _repeat(self, store: RedisStore, orders: list[tuple[float, Scope]]) -> None:
        """First to the replicas that are still to put theirs back, then about what is there already."""
        try:
            for _, scope in orders:
                await store.announce("purge", messages.encode(scope))
        except StoreError as error:
            log.warning("cache: orders to forget could not be given again: %s", error)
        for pause in (0.0, _AGAIN_AFTER):
            await asyncio.sleep(pause)
            for ordered, scope in orders:
                await self._look_again(store, scope, ordered + _SKEW, after=0.0)

    async def _look_again(
        self, store: RedisStore, scope: Scope, made_before: float, after: float = _AGAIN_AFTER
    ) -> None:
        await asyncio.sleep(after)
        try:
            for tenant, listed in (await _listed(store, scope)).items():
                late = await _covered(store, listed, scope, made_before)
                for start in range(0, len(late), _BATCH):
                    some = late[start : start + _BATCH]
                    named = Scope(tenant=tenant, ids=frozenset(some))
                    self._tiers.forget(named)
                    await store.remove({tenant: some}, messages.encode(named))
        except StoreError as error:
            log.warning("cache: an order to forget could not be looked after: %s", error)


async def _listed(store: RedisStore, scope: Scope) -> dict[str, list[str]]:
    """What the scope may cover, by tenant: the store's registers know no models."""
    tenants = [scope.tenant] if scope.tenant is not None else await store.tenants()
    if scope.ids is not None:
        return {tenant: sorted(scope.ids) for tenant in tenants}
    return {tenant: await store.ids(tenant, 0.0) for tenant in tenants}


async def _covered(
    store: RedisStore, entry_ids: list[str], scope: Scope, made_before: float = float("inf")
) -> list[str]:
    """Those that the scope covers by what the entries themselves say."""
    found = []
    for start in range(0, len(entry_ids), _BATCH):
        some = entry_ids[start : start + _BATCH]
        for entry_id, body in zip(some, await store.get_many(some), strict=True):
            entry = decode_as(entry_id, body, 0.0)
            if entry is not None and entry.created < made_before and _covers(scope, entry):
                found.append(entry_id)
    return found


def _covers(scope: Scope, entry: Entry) -> bool:
    return scope.covers(entry_id=entry.id, tenant=entry.owner, model=entry.model)
