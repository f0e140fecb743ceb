"""Reading what others have stored: in pieces that the store and the event loop can bear."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from ferry_runtime.cache import feed as module
from ferry_runtime.cache.entry import CachedChoice, Entry, encode
from ferry_runtime.cache.feed import Feed
from ferry_runtime.engine.protocol import FinishReason
from ferry_runtime.errors import StoreUnavailable


def entry(entry_id: str, **changes: Any) -> Entry:
    values: dict[str, Any] = {
        "exact": b"x", "owner": "a", "model": "m", "created": time.time(), "expires": time.time() + 100.0,
        "choices": (CachedChoice("text", (1,), FinishReason.STOP),),
    }  # fmt: skip
    return Entry(id=entry_id, **(values | changes))


class Store:
    """The part of a store that a reconciliation asks. ``most``: entries that it can send in time."""

    def __init__(self, entries: Sequence[Entry], most: int = 10_000) -> None:
        self.entries = {entry.id: entry for entry in entries}
        self.most = most
        self.asked: list[int] = []

    async def last_position(self) -> str:
        return "0-0"

    async def tenants(self) -> list[str]:
        return ["a"]

    async def register(self, tenant: str, now: float) -> dict[str, float]:
        return {entry.id: entry.expires for entry in self.entries.values()}

    async def get_many(self, entry_ids: Sequence[str]) -> list[bytes | None]:
        self.asked.append(len(entry_ids))
        if len(entry_ids) > self.most:
            raise StoreUnavailable("the store did not answer in time")
        found = [self.entries.get(entry_id) for entry_id in entry_ids]
        return [encode(entry) if entry is not None else None for entry in found]


class Reader:
    """What a replica holds after reading."""

    def __init__(self, store: Store) -> None:
        self.held: dict[str, Entry] = {}
        self.purges = 0
        self.feed = Feed(
            store,
            "me",
            held=lambda entry_id: self.held[entry_id].expires if entry_id in self.held else None,
            on_entry=lambda entry, _: self.held.__setitem__(entry.id, entry),
            on_gone=lambda entry_id: self.held.pop(entry_id, None),
            on_purge=lambda _: 0,
            on_reconciled=lambda *_: None,
            purges=lambda: self.purges,
        )

    async def read_all(self) -> int:
        """Until it succeeds; returns how often it had to begin anew."""
        for again in range(50):
            try:
                await self.feed._reconcile()
            except StoreUnavailable:
                continue
            return again
        raise AssertionError("never read to its end")


@pytest.mark.parametrize("most", [1, 3, 120])
async def test_entries_too_large_for_one_answer_are_read_in_smaller_pieces(most: int) -> None:
    store = Store([entry(str(number)) for number in range(450)], most)
    reader = Reader(store)
    await reader.read_all()
    assert reader.held == store.entries


async def test_pieces_grow_again_once_the_store_answers_for_them() -> None:
    store = Store([entry(str(number)) for number in range(450)], most=20)
    reader = Reader(store)
    await reader.read_all()
    store.most = 10_000
    for _ in range(8):
        reader.held.clear()
        await reader.read_all()
    assert max(store.asked[-3:]) == module._BATCH


async def test_others_get_a_turn_while_much_is_read(monkeypatch) -> None:
    monkeypatch.setattr(module, "_YIELD", 0)
    reader = Reader(Store([entry(str(number)) for number in range(50)]))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await reader.read_all()
    task.cancel()
    assert turns >= 50


async def test_what_an_order_crosses_between_two_entries_is_read_again(monkeypatch) -> None:
    monkeypatch.setattr(module, "_YIELD", 0)
    store = Store([entry(str(number)) for number in range(5)])
    reader = Reader(store)

    async def forget() -> None:
        reader.purges += 1
        reader.held.clear()
        for entry_id in ("3", "4"):
            del store.entries[entry_id]

    task = asyncio.create_task(forget())
    await reader.read_all()
    await task
    assert not {"3", "4"} & set(reader.held)


@pytest.mark.parametrize("found", ["nothing", "another entry", "an expired one"])
async def test_an_older_version_is_not_kept_where_the_new_one_is_not_to_be_had(found: str) -> None:
    new = entry("1", expires=time.time() + 50.0)
    store = Store([new])
    reader = Reader(store)
    reader.held["1"] = entry("1")
    instead = {
        "nothing": None,
        "another entry": encode(entry("2")),
        "an expired one": encode(entry("1", expires=1.0)),
    }[found]

    async def get_many(entry_ids: Sequence[str]) -> list[bytes | None]:
        return [instead]

    store.get_many = get_many
    await reader.read_all()
    assert "1" not in reader.held
