"""Following the stream of changes, so that this process holds what the shared store holds.

A cursor marks what has been seen. After a start, a lost stream or a trim past the cursor, everything
is compared anew (reconciliation); in between, events alone are applied, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from enum import Enum, auto

from ferry_runtime.cache import messages
from ferry_runtime.cache.entry import Entry, decode_as
from ferry_runtime.cache.tasks import end
from ferry_runtime.errors import StoreError, StoreMisused, StoreUnavailable
from ferry_runtime.store.redis_store import Event, RedisStore

log = logging.getLogger(__name__)

_BATCH = 200  # entries fetched at once; fewer while the store does not answer for so many in time
_YIELD = 128 * 1024  # bytes decoded before others on the event loop get a turn
_MOST_VOIDED = 3  # fetches in a row that orders to forget may make void
_EVENTS = 500
_SAME_EXPIRY = 0.002  # seconds; two versions of an entry differ by far more: each draws its jitter
_WAIT = 0.4  # seconds one read of the stream waits; also the heartbeat
DOUBTFUL_AFTER = 1.5  # seconds behind: local entries are confirmed first
STALE_AFTER = 30.0  # seconds behind: local entries are not served
# Seconds that a healthy follower may be behind when it finds the store gone: a read that brought nothing,
# and one that waited for its deadline. A process that was stopped itself is further behind.
_FOLLOWING = 2 * _WAIT + 1.0 + 0.1


class Freshness(Enum):
    """How far this process can trust that no purge has passed it by."""

    FRESH = auto()
    DOUBTFUL = auto()
    STALE = auto()


class Feed:
    """Runs for the life of the process. ``on_entry`` takes an entry and its encoded form, ``on_gone``
    the id of one that was announced and is not to be had, ``on_judged`` a label, ours included;
    ``on_restarted`` is awaited when the store has been started anew without what it held; it is told whether
    this process had followed the old one to its end, and tells which entries the store has again; ``held``
    tells when the version of an entry that this process has expires; None: it has none."""

    def __init__(
        self,
        store: RedisStore,
        replica: str,
        *,
        held: Callable[[str], float | None],
        on_entry: Callable[[Entry, bytes], None],
        on_gone: Callable[[str], None],
        on_purge: Callable[[messages.Scope], int],
        on_judged: Callable[[messages.Judged], None],
        on_reconciled: Callable[[set[str], float], None],
        on_restarted: Callable[[bool], Awaitable[set[str]]],
        purges: Callable[[], int],
    ) -> None:
        self._store = store
        self._replica = replica
        self._held = held
        self._on_entry = on_entry
        self._on_gone = on_gone
        self._on_purge = on_purge
        self._on_judged = on_judged
        self._on_reconciled = on_reconciled
        self._on_restarted = on_restarted
        self._purges = purges
        self._batch = _BATCH
        self._cursor: str | None = None
        self._caught_up = time.monotonic()  # everything announced by then has been applied
        self._run_id: str | None = None  # of the server that the cursor belongs to
        self._lost = False
        self._cut_off = False
        self._task: asyncio.Task[None] | None = None
        self.loaded = asyncio.Event()  # the first reconciliation is over

    async def start(self) -> None:
        self._caught_up = time.monotonic()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        await end(self._task)

    def start_over(self) -> None:
        """The store is another one now: what it holds is compared anew."""
        self._cursor = None

    def freshness(self) -> Freshness:
        """Talking to the store is not enough: a backlog of events may hold an order to forget."""
        age = time.monotonic() - self._caught_up
        if age >= STALE_AFTER:
            return Freshness.STALE
        return Freshness.DOUBTFUL if age >= DOUBTFUL_AFTER else Freshness.FRESH

    @property
    def lost(self) -> bool:
        """The stream cannot be followed now: what the store lacks says nothing about an order to forget."""
        return self._lost

    @property
    def cut_off(self) -> bool:
        """The store went away under a process that had followed it until then."""
        return self._lost and self._cut_off

    async def _run(self) -> None:
        pause = 0.1
        check = True
        while True:
            try:
                if self._cursor is None or (check and await self._gap(self._cursor)):
                    await self._reconcile()
                check = await self._follow()
                pause = 0.1
            except StoreError as error:
                check = True
                if isinstance(error, StoreMisused):
                    with contextlib.suppress(StoreError):
                        await self._store.remove_foreign()
                self._note_lost(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 1.0)

    async def _follow(self) -> bool:
        """One read of the stream. True when a look for gaps is due."""
        assert self._cursor is not None  # noqa: S101 - set by the reconciliation before
        asked = time.monotonic()  # the answer may have been waiting for this process for long
        events = await self._store.events(self._cursor, _WAIT, _EVENTS)
        await self._apply(events)
        if events:
            self._cursor = events[-1].position
        if len(events) < _EVENTS:
            self._note_caught_up(asked)
        return not events or len(events) >= _EVENTS

    async def _gap(self, cursor: str) -> bool:
        """Were events trimmed, or the stream replaced, past what was seen?"""
        first, last = await self._store.first_position(), await self._store.last_position()
        return _order(last) < _order(cursor) or _order(first) > _order(cursor)

    async def _reconcile(self) -> None:
        """Make this process hold what the store holds, then follow from where that began."""
        run_id = await self._store.run_id()
        cursor = await self._store.last_position()
        now = time.time()
        alive: set[str] = set()
        if await self._restarted(run_id):
            # Orders that the new server has heard come before what they may be about.
            async for events in self._history():
                await self._apply(events)
            alive.update(await self._on_restarted(self.cut_off))
        for tenant in await self._store.tenants():
            register = await self._store.register(tenant, now)
            alive.update(register)
            missing = [entry_id for entry_id, expires in register.items() if self._lacks(entry_id, expires)]
            await self._fetch(missing)
        self._on_reconciled(alive, now)
        if not self.loaded.is_set():
            await self._remember(cursor)
        self._cursor, self._run_id = cursor, run_id
        self.loaded.set()

    async def _restarted(self, run_id: str | None) -> bool:
        """Is it another server, without what was followed? One that somebody has emptied is the same."""
        if self._cursor is None or None in (run_id, self._run_id):
            return False
        return run_id != self._run_id and await self._gap(self._cursor)

    async def _history(self) -> AsyncIterator[Sequence[Event]]:
        """All that the stream still holds, in order."""
        at = "0-0"
        while events := await self._store.events(at, 0.0, _EVENTS):
            yield events
            at = events[-1].position

    async def _remember(self, cursor: str) -> None:
        """Labels that other replicas, or this one's earlier life, have told: as far back as the stream goes.
        What an order to forget has covered since they were told is left out."""
        labels: dict[str, list[messages.Judged]] = {}
        async for events in self._history():
            for event in events:
                judged = messages.decode_judged(event.data) if event.kind == "label" else None
                scope = messages.decode_scope(event.data) if event.kind == "purge" else None
                if judged is not None and _order(event.position) <= _order(cursor):
                    labels.setdefault(judged.id, []).append(judged)
                elif scope is not None:
                    labels = {key: told for key, told in labels.items() if not _covers(scope, told[0])}
            if _order(events[-1].position) >= _order(cursor):
                break
        for judged in (judged for told in labels.values() for judged in told):
            self._on_judged(judged)

    def _lacks(self, entry_id: str, expires: float) -> bool:
        """An answer that was judged wrong and made again has the same id, and another expiry."""
        held = self._held(entry_id)
        return held is None or abs(held - expires) > _SAME_EXPIRY

    async def _apply(self, events: Sequence[Event]) -> None:
        """In order; runs of new entries are fetched together."""
        wanted: list[str] = []
        for event in events:
            if event.kind == "put":
                stored = messages.decode_stored(event.data)
                ours = stored is not None and stored.replica == self._replica
                if stored is not None and not (ours and self._held(stored.id) is not None):
                    wanted.append(stored.id)
            elif event.kind == "purge":
                scope = messages.decode_scope(event.data)
                if scope is not None:
                    await self._fetch(wanted)
                    wanted = []
                    self._on_purge(scope)
            elif event.kind == "label":
                judged = messages.decode_judged(event.data)
                if judged is not None:
                    self._on_judged(judged)
        await self._fetch(wanted)

    async def _fetch(self, entry_ids: Sequence[str]) -> None:
        """What an order to forget crosses is read again."""
        rest, voided = list(entry_ids), 0
        while rest and voided < _MOST_VOIDED:
            some, purges = rest[: self._batch], self._purges()
            try:
                bodies = await self._store.get_many(some)
            except StoreUnavailable:
                self._batch = max(1, self._batch // 2)
                raise
            taken = await self._take(some, bodies, purges)
            rest, voided = rest[taken:], 0 if taken else voided + 1
        self._batch = min(_BATCH, self._batch * 2)

    async def _take(self, entry_ids: Sequence[str], bodies: Sequence[bytes | None], purges: int) -> int:
        """Learn them in order. Returns how many: fewer where an order to forget came meanwhile."""
        decoded = 0
        for position, (entry_id, body) in enumerate(zip(entry_ids, bodies, strict=True)):
            if purges != self._purges():
                return position
            entry = decode_as(entry_id, body, time.time())
            if entry is None or body is None:
                self._on_gone(entry_id)
                continue
            self._on_entry(entry, body)
            decoded += len(body)
            if decoded > _YIELD:
                decoded = 0
                await asyncio.sleep(0)
        return len(entry_ids)

    def _note_caught_up(self, when: float) -> None:
        self._caught_up = when
        if self._lost:
            self._lost = False
            log.info("cache: following changes at store %s again", self._store.address.label)

    def _note_lost(self, error: StoreError) -> None:
        if not self._lost:
            self._lost = True
            behind = time.monotonic() - self._caught_up
            self._cut_off = isinstance(error, StoreUnavailable) and behind <= _FOLLOWING
            log.warning("cache: changes at store %s are lost: %s", self._store.address.label, error)


def _covers(scope: messages.Scope, judged: messages.Judged) -> bool:
    return scope.covers(entry_id=judged.id, tenant=judged.owner, model=judged.model)


def _order(position: str) -> tuple[int, int]:
    """Stream positions compare as two numbers: milliseconds, then a count."""
    milliseconds, _, count = position.partition("-")
    return int(milliseconds), int(count or 0)
