"""Looking into the cache and giving it orders. Routes call this; it knows nothing of HTTP.

Every order takes the caller's rights: an administrator may name any tenant, everybody else reaches
their own entries only, and for all others an entry simply is not there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ferry_runtime.cache.entry import Entry
from ferry_runtime.cache.layer import CacheLayer
from ferry_runtime.cache.messages import Scope
from ferry_runtime.cache.semantic.compared import Compared
from ferry_runtime.errors import InvalidRequest, StoreError, StoreUnavailable


@dataclass(frozen=True, slots=True)
class Caller:
    """Who gives the order, as the API has authenticated it."""

    tenant: str
    admin: bool = False


class FeedbackVerdict(StrEnum):
    GOOD = "good"
    WRONG = "wrong"


class EntryNotFound(InvalidRequest):
    """No such entry, or none that this caller may see: status 404."""


class CacheControl:
    """Orders reach every replica through the store's stream. They raise StoreUnavailable when the
    store cannot take them (this process has obeyed by then): an order must not seem to have been
    carried out everywhere when it was not."""

    def __init__(self, layer: CacheLayer) -> None:
        self._layer = layer
        self._tiers = layer.tiers

    @property
    def store_reachable(self) -> bool | None:
        """None: answers are kept in this process alone."""
        shared = self._tiers.shared
        return shared.reachable if shared is not None else None

    def stats(self) -> dict[str, Any]:
        """JSON for GET /cache/stats. Counts only; no text, no tenant names."""
        tiers, semantic = self._tiers, self._layer.semantic
        metrics = self._layer.metrics
        return {
            "entries": len(tiers.local),
            "bytes": tiers.local.size,
            "maxEntries": tiers.local.max_entries,
            "tenants": len(tiers.local.tenant_counts()),
            "indexed": metrics.value(metrics.indexed),
            "semantic": {
                "enabled": semantic is not None and bool(semantic.fingerprint),
                "embedder": semantic.fingerprint if semantic is not None else "",
            },
            "store": {
                "shared": tiers.shared is not None,
                "reachable": self.store_reachable,
                "writable": tiers.shared.writable if tiers.shared is not None else None,
                "loaded": tiers.feed.loaded.is_set() if tiers.feed is not None else True,
                "freshness": tiers.freshness.name.lower(),
            },
            "lookups": metrics.by_labels(metrics.lookups),
            "bypasses": metrics.by_labels(metrics.bypasses),
            "semanticSkips": metrics.by_labels(metrics.skips),
            "rejections": metrics.by_labels(metrics.rejections),
            "nearMisses": metrics.value(metrics.near_misses),
            "shadow": {
                "verdicts": metrics.by_labels(metrics.shadow),
                "wrongRate": self._layer.shadow.wrong_rate(),
            },
            "labels": {
                "entries": len(tiers.labels) if tiers.labels is not None else 0,
                "found": metrics.by_labels(metrics.labels),
                "decisions": metrics.by_labels(metrics.learned),
            },
            "coalesced": metrics.value(metrics.coalesced),
            "writes": metrics.by_labels(metrics.writes),
        }

    def compared(self) -> list[Compared]:
        """The latest questions that were near a stored one, newest first. Shows prompts: for admins."""
        semantic = self._layer.semantic
        return semantic.compared() if semantic is not None else []

    async def entry(self, entry_id: str, caller: Caller) -> dict[str, Any]:
        """JSON for GET /cache/entries/{id}. Raises EntryNotFound, StoreUnavailable."""
        entry = await self._find(entry_id, caller)
        return {
            "id": entry.id,
            "tenant": entry.owner,
            "model": entry.model,
            "created": entry.created,
            "expires": entry.expires,
            "question": entry.question or None,
            "choices": [
                {"text": choice.text, "finishReason": choice.finish_reason.value} for choice in entry.choices
            ],
            "completionTokens": entry.completion_tokens,
            "generationSeconds": round(entry.cost_seconds, 3),
            "semantic": bool(entry.partition and entry.vector),
        }

    async def delete_entry(self, entry_id: str, caller: Caller) -> None:
        """Raises EntryNotFound, StoreUnavailable."""
        entry = await self._find(entry_id, caller)
        await self._forget(_only(entry))

    async def delete(self, caller: Caller, *, tenant: str | None = None, model: str | None = None) -> int:
        """Remove what a scope covers; returns how many entries that were. Without rights over others,
        an absent tenant means one's own. Raises EntryNotFound for somebody else's tenant."""
        if not caller.admin:
            if tenant not in (None, caller.tenant):
                raise EntryNotFound("No such tenant.", "tenant")
            tenant = caller.tenant
        return await self._forget(Scope(tenant=tenant, model=model))

    async def clear(self, caller: Caller) -> int:
        """POST /clear-cache: everything the caller may reach, and nothing of other programs."""
        return await self.delete(caller)

    async def feedback(self, entry_id: str, verdict: str, caller: Caller) -> None:
        """A wrong answer is evicted everywhere at once; either verdict labels the entry, also for when the
        same question makes it anew. Raises InvalidRequest, EntryNotFound, StoreUnavailable."""
        if verdict not in set(FeedbackVerdict):
            raise InvalidRequest("verdict must be good or wrong.", "verdict")
        entry = await self._find(entry_id, caller)
        self._layer.metrics.feedback.labels(verdict).inc()
        labeller, right = self._layer.labeller, verdict == FeedbackVerdict.GOOD
        score = labeller.last_score(entry_id)
        try:
            if not right:
                await self._forget(_only(entry))
        finally:
            await labeller.told(entry, score, right=right)

    async def _find(self, entry_id: str, caller: Caller) -> Entry:
        entry = await self._look_up(entry_id) if _plausible(entry_id) else None
        if entry is None or not (caller.admin or entry.owner == caller.tenant):
            raise EntryNotFound("No such cache entry.", "entry")
        return entry

    async def _look_up(self, entry_id: str) -> Entry | None:
        """Raises StoreUnavailable: an entry that cannot be asked for is not an absent one."""
        try:
            return await self._tiers.look_up(entry_id, time.time())
        except StoreError:
            held = self._tiers.held(entry_id, time.time())
        if held is None:
            raise StoreUnavailable("The cache's store cannot be asked for this entry now.")
        return held

    async def _forget(self, scope: Scope) -> int:
        with _said_plainly():
            return await self._layer.orders.forget(scope)


def _only(entry: Entry) -> Scope:
    return Scope(tenant=entry.owner, ids=frozenset({entry.id}))


@contextmanager
def _said_plainly() -> Iterator[None]:
    """Whatever kept the store from obeying, the caller's answer to it is the same."""
    try:
        yield
    except StoreError:
        raise StoreUnavailable(
            "The cache's store cannot be reached. This replica has obeyed; others may not have."
        ) from None


def _plausible(entry_id: str) -> bool:
    """Ids are 32 hexadecimal digits; anything else is not worth a question to the store."""
    return len(entry_id) == 32 and all(letter in "0123456789abcdef" for letter in entry_id)
