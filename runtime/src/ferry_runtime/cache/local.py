"""The tier inside the process: encoded entries, bounded by number and bytes.

Room is shared fairly: when it runs out, the tenant that holds most gives first. A tenant holding no
more than its equal share therefore never loses an entry to another tenant's flood. Among that
tenant's least recently used entries the one goes whose loss costs least to make up.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice

from ferry_runtime.cache.entry import Entry

_OVERHEAD = 700  # bytes of Python objects around an entry's encoded size, measured
_ASIDE = 8  # least recently used entries among which cost decides


class Drop(Enum):
    """Why an entry left. Only EVICTED says nothing against the entry itself."""

    EVICTED = auto()
    REPLACED = auto()
    EXPIRED = auto()
    PURGED = auto()


@dataclass(frozen=True, slots=True)
class Held:
    """An entry's head, and the whole of it encoded: Python objects of a thousand token ids take
    twenty times the room."""

    id: str
    owner: str
    model: str
    created: float
    expires: float
    cost_seconds: float
    body: bytes

    @classmethod
    def of(cls, entry: Entry, body: bytes) -> Held:
        return cls(entry.id, entry.owner, entry.model, entry.created, entry.expires, entry.cost_seconds, body)

    @property
    def size(self) -> int:
        return len(self.body) + _OVERHEAD


@dataclass(slots=True)
class _Tenant:
    entries: OrderedDict[str, Held] = field(default_factory=OrderedDict)  # oldest use first
    size: int = 0


class LocalStore:
    """Entries by id. ``on_drop`` hears of every entry that leaves."""

    def __init__(
        self,
        max_entries: int,
        max_bytes: int,
        on_drop: Callable[[Held, Drop], None] | None = None,
    ) -> None:
        self.max_entries = max_entries
        self.max_bytes = max_bytes
        self.on_drop = on_drop
        self._entries: dict[str, Held] = {}
        self._tenants: dict[str, _Tenant] = {}
        self.size = 0
        self.purges = 0  # grows with every order to drop: a read that began before is void

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._entries

    def expiry(self, entry_id: str) -> float | None:
        """When the version that is held expires, in Unix seconds; None: it is not held."""
        held = self._entries.get(entry_id)
        return held.expires if held is not None else None

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._entries.values()))

    def get(self, entry_id: str, now: float) -> Held | None:
        """The entry, unless it has expired: checked here, never left to a sweep."""
        held = self._entries.get(entry_id)
        if held is None:
            return None
        if now >= held.expires:
            self.drop(entry_id, Drop.EXPIRED)
            return None
        self._tenants[held.owner].entries.move_to_end(entry_id)
        return held

    def put(self, held: Held) -> None:
        """An entry larger than the whole store is not kept."""
        self.drop(held.id, Drop.REPLACED)
        if held.size > self.max_bytes or self.max_entries < 1:
            return
        self._entries[held.id] = held
        tenant = self._tenants.setdefault(held.owner, _Tenant())
        tenant.entries[held.id] = held
        tenant.size += held.size
        self.size += held.size
        while len(self._entries) > self.max_entries:
            self._evict(lambda holder: len(holder.entries))
        while self.size > self.max_bytes:
            self._evict(lambda holder: holder.size)

    def drop(self, entry_id: str, reason: Drop) -> bool:
        held = self._entries.pop(entry_id, None)
        if held is None:
            return False
        tenant = self._tenants[held.owner]
        del tenant.entries[entry_id]
        tenant.size -= held.size
        self.size -= held.size
        if not tenant.entries:
            del self._tenants[held.owner]
        if self.on_drop is not None:
            self.on_drop(held, reason)
        return True

    def purge(self, wanted: Callable[[Held], bool], among: Iterable[str] | None = None) -> int:
        """Drop by order; entries that are being read meanwhile are not let in again."""
        self.purges += 1
        named = self._entries.values() if among is None else map(self._entries.get, among)
        doomed = [held.id for held in named if held is not None and wanted(held)]
        return sum(self.drop(entry_id, Drop.PURGED) for entry_id in doomed)

    def ids(self) -> list[str]:
        return list(self._entries)

    def sweep(self, now: float, among: Iterable[str]) -> int:
        """Free what has expired. Only memory depends on it, never an answer."""
        held = (self._entries.get(entry_id) for entry_id in among)
        doomed = [entry.id for entry in held if entry is not None and now >= entry.expires]
        return sum(self.drop(entry_id, Drop.EXPIRED) for entry_id in doomed)

    def tenant_counts(self) -> dict[str, int]:
        return {name: len(tenant.entries) for name, tenant in self._tenants.items()}

    def _evict(self, share: Callable[[_Tenant], int]) -> None:
        largest = max(self._tenants.values(), key=share)
        aside = islice(largest.entries.values(), _ASIDE)
        # The newest one of a small tenant is never set aside against itself.
        victim = min(islice(aside, max(1, len(largest.entries) - 1)), key=lambda held: held.cost_seconds)
        self.drop(victim.id, Drop.EVICTED)
