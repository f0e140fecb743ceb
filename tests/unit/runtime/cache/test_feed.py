"""Reading what others have stored: in pieces that the store and the event loop can bear."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from ferry_runtime.cache import feed as module
from ferry_runtime.cache.entry import CachedChoice, Entry, encode
from ferry_runtime.cache.feed import Feed
from ferry_runtime.cache.messages import Judged, Scope
from ferry_runtime.cache.messages import encode as encode_message
from ferry_runtime.engine.protocol import FinishReason
from ferry_runtime.errors import StoreUnavailable
from ferry_runtime.store.redis_store import Event


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
        self.told: list[Event] = []
        self.most = most
        self.asked: list[int] = []

    async def run_id(self) -> str | None:
        return "one"

    async def last_position(self) -> str:
        return self.told[-1].position if self.told else "0-0"

    async def events(self, after: str, wait: float, limit: int) -> list[Event]:
        return [event for event in self.told if int(event.position[:-2]) > int(after[:-2])][:limit]

    def tell(self, kind: str, message: Judged | Scope) -> None:
        self.told.append(Event(f"{len(self.told) + 1}-0", kind, encode_message(message)))

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
        self.judged: list[Judged] = []
        self.feed = Feed(
            store,
            "me",
            held=lambda entry_id: self.held[entry_id].expires if entry_id in self.held else None,
            on_entry=lambda entry, _: self.held.__setitem__(entry.id, entry),
            on_gone=lambda entry_id: self.held.pop(entry_id, None),
            on_purge=lambda _: 0,
            on_judged=self.judged.append,
            on_reconciled=lambda *_: None,
            on_restarted=self.restarted,
            purges=lambda: self.purges,
        )

    async def restarted(self, followed: bool) -> set[str]:
        raise AssertionError("the store was not started anew")

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


def judged(entry_id: str, owner: str = "a", label: int = 1) -> Judged:
    return Judged(entry_id, owner, "m", time.time() + 100, label)


async def test_labels_are_learned_from_the_stream_and_nothing_else_as_a_label() -> None:
    reader, store = Reader(Store([])), Store([])
    for message in (judged("x"), judged("y", label=200)):
        store.tell("label", message)
    store.told.append(Event("9-0", "label", b"no label"))
    await reader.feed._apply(store.told)
    assert [(item.id, item.label) for item in reader.judged] == [("x", 1), ("y", 200)]


async def test_a_new_replica_learns_the_labels_that_the_stream_still_holds() -> None:
    store = Store([])
    store.tell("label", judged("purged"))
    store.tell("label", judged("other tenant", owner="b"))
    store.tell("label", judged("kept"))
    store.tell("purge", Scope(tenant="a", ids=frozenset({"purged"})))
    store.tell("label", judged("kept", label=2))
    store.tell("purge", Scope(tenant="b"))
    store.tell("label", judged("purged", label=3))  # after it was made anew
    reader = Reader(store)
    await reader.read_all()
    assert sorted((item.id, item.label) for item in reader.judged) == [
        ("kept", 1),
        ("kept", 2),
        ("purged", 3),
    ]


async def test_a_later_comparison_with_the_store_does_not_learn_them_again() -> None:
    store = Store([])
    store.tell("label", judged("x"))
    reader = Reader(store)
    await reader.read_all()
    await reader.read_all()
    assert len(reader.judged) == 1
