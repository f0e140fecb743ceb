"""What replicas tell each other: the same on both sides, and nothing from what is not theirs."""

import pytest

from ferry_runtime.cache.messages import (
    Judged,
    Scope,
    Stored,
    decode_judged,
    decode_scope,
    decode_stored,
    encode,
)


@pytest.mark.parametrize(
    "scope",
    [Scope(), Scope(tenant="a"), Scope(model="m"), Scope(tenant="a", ids=frozenset({"1", "2"}))],
    ids=["everything", "a tenant", "a model", "named ones"],
)
def test_an_order_arrives_as_it_was_given(scope: Scope) -> None:
    assert decode_scope(encode(scope)) == scope


def test_named_entries_are_looked_up_and_not_searched() -> None:
    """A list would make every trim of n entries cost their square in comparisons."""
    arrived = decode_scope(encode(Scope(ids=frozenset({"1"}))))
    assert arrived is not None
    assert isinstance(arrived.ids, frozenset)


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        (Scope(), True),
        (Scope(tenant="a", model="m", ids=frozenset({"1"})), True),
        (Scope(tenant="b"), False),
        (Scope(model="n"), False),
        (Scope(ids=frozenset({"2"})), False),
        (Scope(ids=frozenset()), False),
    ],
)
def test_every_part_of_an_order_narrows_it_down(scope: Scope, covered: bool) -> None:
    assert scope.covers(entry_id="1", tenant="a", model="m") is covered


def test_a_label_arrives_as_it_was_told_in_about_100_bytes() -> None:
    judged = Judged("0" * 32, "tenant", "model", 1_800_000_000.25, 0xFF)
    assert decode_judged(encode(judged)) == judged
    assert len(encode(judged)) < 100


@pytest.mark.parametrize("data", [b"", b"junk", b"\xc1", b"\x90", b"\x93\x01\x02\x03"])
def test_what_is_not_ours_is_no_message(data: bytes) -> None:
    assert decode_stored(data) is None
    assert decode_judged(data) is None
    assert decode_stored(encode(Stored("r", "1"))) == Stored("r", "1")
    assert decode_scope(b"\x93\x01\x02\x03") is None
