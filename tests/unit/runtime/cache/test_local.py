"""Bounds, fairness and expiry of the tier inside the process."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ferry_runtime.cache.local import Drop, Held, LocalStore

BODY = b"x" * 300


def held(entry_id: str, owner: str = "a", *, expires: float = 100.0, cost: float = 1.0) -> Held:
    return Held(entry_id, owner, "m", 0.0, expires, cost, BODY)


def test_the_least_recently_used_entry_goes_first() -> None:
    store = LocalStore(10, 1 << 20)
    for number in range(10):
        store.put(held(str(number)))
    for number in range(5):
        store.get(str(number), 0.0)
    store.put(held("new"))
    assert "5" not in store
    assert "0" in store


def test_among_old_entries_the_cheapest_to_make_up_goes() -> None:
    store = LocalStore(4, 1 << 20)
    for entry_id, cost in [("dear", 9.0), ("cheap", 0.1), ("middling", 3.0), ("other", 3.0)]:
        store.put(held(entry_id, cost=cost))
    store.put(held("new"))
    assert "cheap" not in store
    assert "dear" in store


def test_a_flood_of_one_tenant_takes_nothing_from_another() -> None:
    store = LocalStore(10, 1 << 20)
    for number in range(4):
        store.put(held(f"quiet-{number}", "quiet"))
    for number in range(1000):
        store.put(held(f"flood-{number}", "flood"))
    assert store.tenant_counts() == {"quiet": 4, "flood": 6}


def test_an_entry_larger_than_the_store_is_not_kept() -> None:
    store = LocalStore(10, 500)
    store.put(held("big"))
    assert len(store) == store.size == 0


@pytest.mark.parametrize(("now", "found"), [(99.9, True), (100.0, False)])
def test_an_entry_is_gone_at_its_expiry(now: float, found: bool) -> None:
    store = LocalStore(10, 1 << 20)
    store.put(held("e"))
    assert (store.get("e", now) is not None) is found


def test_whoever_depends_on_an_entry_hears_why_it_left() -> None:
    heard: list[tuple[str, Drop]] = []
    store = LocalStore(2, 1 << 20, lambda entry, reason: heard.append((entry.id, reason)))
    store.put(held("a"))
    store.put(held("a"))
    store.put(held("b"))
    store.purge(lambda entry: entry.id == "b")
    store.get("a", 1000.0)
    assert heard == [("a", Drop.REPLACED), ("b", Drop.PURGED), ("a", Drop.EXPIRED)]


class Store(RuleBasedStateMachine):
    """Against a plain dict of what was put: nothing wrong, nothing expired, nothing over a bound."""

    def __init__(self) -> None:
        super().__init__()
        self.store = LocalStore(6, 5000)
        self.put: dict[str, Held] = {}
        self.now = 0.0

    @rule(
        entry=st.sampled_from("abcdefghij"),
        owner=st.sampled_from("xyz"),
        life=st.floats(0, 5),
        size=st.integers(0, 4000),
    )
    def keep(self, entry: str, owner: str, life: float, size: int) -> None:
        made = Held(entry, owner, "m", self.now, self.now + life, 1.0, b"x" * size)
        self.store.put(made)
        self.put[entry] = made

    @rule(entry=st.sampled_from("abcdefghij"))
    def read(self, entry: str) -> None:
        found = self.store.get(entry, self.now)
        if found is not None:
            assert found is self.put[entry]
            assert self.now < found.expires

    @rule(seconds=st.floats(0, 3))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(owner=st.sampled_from("xyz"))
    def purge(self, owner: str) -> None:
        self.store.purge(lambda entry: entry.owner == owner)
        assert owner not in self.store.tenant_counts()

    @rule()
    def sweep(self) -> None:
        self.store.sweep(self.now, self.store.ids())
        assert all(entry.expires > self.now for entry in self.store)

    @invariant()
    def bounded_and_consistent(self) -> None:
        kept = list(self.store)
        assert len(kept) == len(self.store) <= 6
        assert sum(entry.size for entry in kept) == self.store.size <= 5000
        assert sum(self.store.tenant_counts().values()) == len(kept)


TestStore = Store.TestCase
TestStore.settings = settings(max_examples=60, deadline=None, stateful_step_count=40)
