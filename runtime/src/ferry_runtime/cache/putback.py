"""A store that was started anew and has lost what it held gets it back from the replicas.

Every replica writes the answers that it holds; whoever comes second finds them there. None of them is
announced: the replicas that follow the stream had these answers, and others find them by asking.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from ferry_runtime.cache import messages
from ferry_runtime.cache.local import Held, LocalStore
from ferry_runtime.store.redis_store import Record, RedisStore

log = logging.getLogger(__name__)

_BATCH_ENTRIES = 100
_BATCH_BYTES = 1 << 20


async def put_back(local: LocalStore, store: RedisStore) -> set[str]:
    """Ids of what the store has again. Raises StoreError."""
    known: set[str] = set()
    for batch in _batches(local):
        await store.restore([_record(held) for held in batch])
        # An order to forget may have come between taking the batch and writing it.
        crossed = [held for held in batch if held.id not in local]
        for held in crossed:
            scope = messages.Scope(tenant=held.owner, ids=frozenset({held.id}))
            await store.remove({held.owner: [held.id]}, messages.encode(scope))
        known.update(held.id for held in batch if held.id in local)
    if known:
        # Only a stream with something in it shows that it was lost, should that happen again.
        await store.announce("back", b"")
        log.info("cache: %d answers put back into store %s", len(known), store.address.label)
    return known


def _batches(local: LocalStore) -> Iterator[list[Held]]:
    batch: list[Held] = []
    size, now = 0, time.time()
    for held in local:
        if held.id not in local or held.expires <= now:
            continue  # it went while an earlier batch was written
        batch.append(held)
        size += len(held.body)
        if len(batch) >= _BATCH_ENTRIES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _record(held: Held) -> Record:
    return Record(id=held.id, tenant=held.owner, expires=held.expires, body=held.body, event=b"")
