"""Behind the client's back: a kept answer goes to every replica, at once and then with its vector.

The embedder may be slow or gone; nobody's exact hit waits for it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ferry_runtime.cache.entry import Entry
from ferry_runtime.cache.tiers import Semantic, Tiers


class Publisher:
    """Both steps raise StoreError. ``purges`` was counted when the answer was kept: an order to forget
    it that came since then must not be undone by this late write."""

    def __init__(self, tiers: Tiers, semantic: Semantic | None, max_entries: Callable[[], int]) -> None:
        self._tiers = tiers
        self._semantic = semantic
        self._max_entries = max_entries

    async def publish(self, entry: Entry, purges: int) -> bool:
        """True: `complete` is still to come."""
        vector = self._semantic.at_hand(entry.question) if self._semantic and entry.partition else None
        if vector is not None:
            entry = self._with_vector(entry, vector)
        await self._publish(entry, purges)
        return bool(self._semantic and entry.partition) and vector is None

    async def complete(self, entry: Entry, purges: int) -> bool:
        """Publish it again if the embedder has a vector for it, and no newer answer is held."""
        vector = await self._semantic.vector(entry.question) if self._semantic is not None else None
        if vector is None or self._tiers.local.expiry(entry.id) not in (None, entry.expires):
            return False
        await self._publish(self._with_vector(entry, vector), purges)
        return True

    def _with_vector(self, entry: Entry, vector: bytes) -> Entry:
        fingerprint = self._semantic.fingerprint if self._semantic is not None else ""
        entry = msgspec.structs.replace(entry, vector=vector, embedder=fingerprint)
        if self._tiers.local.expiry(entry.id) == entry.expires:
            self._tiers.keep(entry)
        return entry

    async def _publish(self, entry: Entry, purges: int) -> None:
        local = self._tiers.local
        if purges != local.purges and entry.id not in local:
            return
        tenants = max(1, len(local.tenant_counts()))
        await self._tiers.publish(entry, quota=max(1, self._max_entries() // tenants))
        if purges != local.purges and entry.id not in local:
            await self._tiers.withdraw(entry)
