"""Vectors: found when near, gone when removed, bounded, kept apart by partition."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ferry_runtime.cache.entry import CachedChoice, Entry
from ferry_runtime.cache.messages import Scope
from ferry_runtime.cache.semantic.index import SemanticIndex
from ferry_runtime.cache.semantic.partition import DIMENSIONS, Partition
from ferry_runtime.engine.protocol import FinishReason


def unit(seed: int) -> np.ndarray:
    vector = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return vector / np.linalg.norm(vector)


def near(vector: np.ndarray, cosine: float, seed: int = 99) -> np.ndarray:
    other = unit(seed)
    other -= (other @ vector) * vector
    other /= np.linalg.norm(other)
    return (cosine * vector + np.sqrt(1 - cosine**2) * other).astype(np.float32)


def entry(entry_id: str, vector: np.ndarray, **changes: Any) -> Entry:
    values: dict[str, Any] = {
        "owner": "a", "model": "m", "created": 0.0, "expires": 100.0, "partition": b"p", "question": "q?",
        "embedder": "minilm", "vector": vector.astype("<f2").tobytes(), "exact": b"x",
        "choices": (CachedChoice("t", (1,), FinishReason.STOP),),
    }  # fmt: skip
    return Entry(id=entry_id, **(values | changes))


def build(max_entries: int = 1000, max_bytes: int = 1 << 24) -> SemanticIndex:
    return SemanticIndex(max_entries, max_bytes, lambda: "minilm")


def ids(index: SemanticIndex, vector: np.ndarray, partition: bytes = b"p", now: float = 1.0) -> list[str]:
    return [found.row.id for found in index.nearest(partition, vector, 0.8, now)]


@pytest.mark.parametrize("count", [3, 600, 5000])
def test_near_ones_are_found_among_any_number(count: int) -> None:
    partition = Partition()
    for number in range(count):
        partition.append(str(number), unit(number))
    target = unit(count // 2)
    for cosine in (0.98, 0.85, 0.81):
        found = partition.nearest(near(target, cosine), 0.8, 5)
        assert [entry_id for entry_id, _ in found] == [str(count // 2)]
        assert found[0][1] == pytest.approx(cosine, abs=0.003)


def test_below_the_threshold_nothing_is_found() -> None:
    index = build()
    index.add(entry("e", unit(1)))
    assert ids(index, near(unit(1), 0.79)) == []


def test_nearest_first() -> None:
    index = build()
    index.add(entry("far", near(unit(1), 0.85)))
    index.add(entry("close", near(unit(1), 0.95, seed=98)))
    assert ids(index, unit(1)) == ["close", "far"]


def test_partitions_never_meet() -> None:
    index = build()
    index.add(entry("e", unit(1)))
    assert ids(index, unit(1), b"other") == []


def test_an_expired_entry_is_not_found_though_nothing_swept_it() -> None:
    index = build()
    index.add(entry("e", unit(1)))
    assert ids(index, unit(1), now=99.9) == ["e"]
    assert ids(index, unit(1), now=100.0) == []


@pytest.mark.parametrize(
    "changes",
    [{"embedder": "other"}, {"vector": b""}, {"vector": b"\0" * 768}, {"vector": b"\xff" * 768}],
    ids=["another embedder", "no vector", "zeros", "not numbers"],
)
def test_vectors_that_cannot_be_compared_stay_out(changes) -> None:
    index = build()
    index.add(msgspec.structs.replace(entry("e", unit(1)), **changes))
    assert len(index) == 0


def test_entries_that_arrive_before_the_embedder_is_loaded_are_kept() -> None:
    loaded = [""]
    index = SemanticIndex(10, 1 << 20, lambda: loaded[0])
    index.add(entry("e", unit(1)))
    loaded[0] = "minilm"
    assert ids(index, unit(1)) == ["e"]


def test_a_full_index_takes_from_the_tenant_that_holds_most() -> None:
    index = build(max_entries=10)
    for number in range(4):
        index.add(entry(f"quiet-{number}", unit(number), owner="quiet"))
    for number in range(100):
        index.add(entry(f"flood-{number}", unit(100 + number), owner="flood"))
    assert len(index) == 10
    assert all(f"quiet-{number}" in index for number in range(4))


def test_an_index_is_bounded_by_bytes() -> None:
    index = build(max_bytes=20_000)
    for number in range(100):
        index.add(entry(str(number), unit(number)))
    assert 5 < len(index) < 30
    assert index.size <= 20_000


def test_a_purge_goes_by_tenant_model_or_name() -> None:
    index = build()
    for number, (owner, model) in enumerate([("a", "m"), ("a", "n"), ("b", "m")]):
        index.add(entry(str(number), unit(number), owner=owner, model=model))
    assert index.purge(Scope(tenant="a", model="n")) == 1
    assert index.purge(Scope(tenant="b", ids=frozenset({"0"}))) == 0
    assert index.purge(Scope(ids=frozenset({"0", "unknown"}))) == 1
    assert "2" in index


class Index(RuleBasedStateMachine):
    """Whatever is added, replaced and removed, each entry is found by its own vector or is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.index = build(max_entries=12)
        self.kept: dict[str, tuple[int, bytes]] = {}

    @rule(
        name=st.sampled_from("abcdefghijklmnop"), seed=st.integers(0, 30), home=st.sampled_from([b"p", b"q"])
    )
    def add(self, name: str, seed: int, home: bytes) -> None:
        self.index.add(entry(name, unit(seed), partition=home))
        self.kept[name] = (seed, home)

    @rule(name=st.sampled_from("abcdefghijklmnop"))
    def discard(self, name: str) -> None:
        self.index.discard(name)
        self.kept.pop(name, None)

    @invariant()
    def each_is_found_by_its_own_vector(self) -> None:
        assert len(self.index) <= 12
        for name, (seed, home) in self.kept.items():
            found = self.index.nearest(home, unit(seed), 0.9, 1.0, limit=20)
            names = [near.row.id for near in found]
            assert (name in names) == (name in self.index)
            assert all(self.kept[other] == (seed, home) for other in names)


TestIndex = Index.TestCase
TestIndex.settings = settings(max_examples=25, deadline=None, stateful_step_count=30)
