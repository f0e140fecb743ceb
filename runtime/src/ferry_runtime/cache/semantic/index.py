"""Every semantic entry this process knows: by id, by partition, bounded by number and bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ferry_runtime.cache.entry import Entry
from ferry_runtime.cache.messages import Scope
from ferry_runtime.cache.semantic.partition import DIMENSIONS, ROW_BYTES, Partition

_OVERHEAD = 600  # bytes of Python objects per row, measured
_ASIDE = 8  # least recently used rows among which saved cost decides


@dataclass(slots=True)
class Row:
    """What is known of an entry without its answer."""

    id: str
    partition: bytes
    place: int
    question: str
    owner: str
    model: str
    created: float
    expires: float
    cost_seconds: float
    last_score: float | None = None  # the verifier's, of the latest hit

    @property
    def size(self) -> int:
        return ROW_BYTES + _OVERHEAD + 2 * len(self.question)


@dataclass(frozen=True, slots=True)
class Near:
    row: Row
    cosine: float


class SemanticIndex:
    """Implements `tiers.Index`. ``embedder`` tells the fingerprint whose vectors are let in."""

    def __init__(self, max_entries: int, max_bytes: int, embedder: Callable[[], str]) -> None:
        self.max_entries = max_entries
        self.max_bytes = max_bytes
        self.size = 0
        self._embedder = embedder
        self._rows: dict[str, Row] = {}
        self._partitions: dict[bytes, Partition] = {}
        self._owners: dict[str, OrderedDict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._rows

    def expiry(self, entry_id: str) -> float | None:
        row = self._rows.get(entry_id)
        return row.expires if row is not None else None

    def partition_size(self, partition: bytes) -> int:
        found = self._partitions.get(partition)
        return len(found) if found is not None else 0

    def partition_of(self, entry_id: str) -> bytes | None:
        row = self._rows.get(entry_id)
        return row.partition if row is not None else None

    def vector_of(self, entry_id: str, partition: bytes) -> NDArray[np.float32]:
        """As it is stored, shape (384,). Raises KeyError."""
        return self._partitions[partition].vector(self._rows[entry_id].place)

    def add(self, entry: Entry) -> None:
        """Entries of another embedder, and vectors of another size, stay out.

        While our own embedder is still loading all are let in: a partition's key covers its embedder,
        so vectors of two never meet.
        """
        self.discard(entry.id)
        if (self._embedder() or entry.embedder) != entry.embedder or len(entry.vector) != 2 * DIMENSIONS:
            return
        vector = np.frombuffer(entry.vector, dtype="<f2").astype(np.float32)
        norm = float(np.linalg.norm(vector))
        if not 0.9 < norm < 1.1:
            return
        home = self._partitions.setdefault(entry.partition, Partition())
        row = Row(
            entry.id, entry.partition, home.append(entry.id, vector / norm), entry.question,
            entry.owner, entry.model, entry.created, entry.expires, entry.cost_seconds,
        )  # fmt: skip
        self._rows[entry.id] = row
        self._owners.setdefault(entry.owner, OrderedDict())[entry.id] = None
        self.size += row.size
        while len(self._rows) > self.max_entries or self.size > self.max_bytes:
            self._evict()

    def discard(self, entry_id: str) -> None:
        row = self._rows.pop(entry_id, None)
        if row is None:
            return
        self.size -= row.size
        home = self._partitions[row.partition]
        moved = home.remove(row.place)
        if moved is not None:
            self._rows[moved].place = row.place
        if not home.ids:
            del self._partitions[row.partition]
        owner = self._owners[row.owner]
        del owner[entry_id]
        if not owner:
            del self._owners[row.owner]

    def nearest(
        self, partition: bytes, vector: NDArray[np.float32], threshold: float, now: float, limit: int = 5
    ) -> list[Near]:
        """Unexpired entries of the partition with cosine ≥ threshold, nearest first."""
        return self.confirmed(self.shortlist(partition, vector, threshold, limit), vector, threshold, now)

    def shortlist(
        self, partition: bytes, vector: NDArray[np.float32], threshold: float, limit: int = 5
    ) -> list[str]:
        """The part of `nearest` that takes long in a big partition; may run in a thread."""
        home = self._partitions.get(partition)
        return (
            [entry_id for entry_id, _ in home.nearest(vector, threshold, limit)] if home is not None else []
        )

    def confirmed(
        self, entry_ids: list[str], vector: NDArray[np.float32], threshold: float, now: float
    ) -> list[Near]:
        """Scored by where the rows stand now: they may have moved while a thread was looking."""
        found = []
        for entry_id in entry_ids:
            row = self._rows.get(entry_id)
            if row is not None and now < row.expires:
                cosine = self._partitions[row.partition].cosine(row.place, vector)
                if cosine >= threshold:
                    found.append(Near(row, cosine))
        return sorted(found, key=lambda near: -near.cosine)

    def touch(self, entry_id: str, score: float | None = None) -> None:
        """It was served: later in the queue to be evicted."""
        row = self._rows.get(entry_id)
        if row is not None:
            row.last_score = score
            self._owners[row.owner].move_to_end(entry_id)

    def last_score(self, entry_id: str) -> float | None:
        row = self._rows.get(entry_id)
        return row.last_score if row is not None else None

    def purge(self, scope: Scope) -> int:
        named = list(self._rows) if scope.ids is None else [i for i in scope.ids if i in self._rows]
        rows = [self._rows[entry_id] for entry_id in named]
        doomed = [row.id for row in rows if scope.covers(entry_id=row.id, tenant=row.owner, model=row.model)]
        for entry_id in doomed:
            self.discard(entry_id)
        return len(doomed)

    def keep_only(self, alive: set[str], created_before: float) -> None:
        for row in list(self._rows.values()):
            if row.id not in alive and row.created < created_before:
                self.discard(row.id)

    def ids(self) -> list[str]:
        return list(self._rows)

    def sweep(self, now: float, among: Iterable[str]) -> None:
        """Free what has expired. Only memory depends on it, never an answer."""
        for entry_id in among:
            row = self._rows.get(entry_id)
            if row is not None and now >= row.expires:
                self.discard(entry_id)

    def _evict(self) -> None:
        """From the tenant that holds most: of its rows unused for longest, the one cheapest to lose."""
        largest = max(self._owners.values(), key=len)
        aside = islice(largest, min(_ASIDE, max(1, len(largest) - 1)))
        self.discard(min(aside, key=lambda entry_id: self._rows[entry_id].cost_seconds))
