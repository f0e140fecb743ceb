"""Stored answers: whole or not at all, and readable only by the version that wrote them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferry_runtime.cache.entry import CachedChoice, Entry, EntryDecodeError, decode, encode
from ferry_runtime.cache.policy import serves_semantically, storable
from ferry_runtime.cache.recording import Recorder, replay
from ferry_runtime.engine.protocol import Alternative, Delta, FinishReason, TokenLogprob
from ferry_runtime.generation import ChoiceDelta

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH


def entry(*choices: CachedChoice) -> Entry:
    made = choices or (CachedChoice("text", (1, 2), STOP),)
    return Entry(id="e", exact=b"x", owner="a", model="m", created=0.0, expires=10.0, choices=made)


logprobs = st.builds(
    TokenLogprob,
    st.builds(Alternative, st.integers(0, 9), st.text(), st.binary(max_size=4), st.floats(-99, 0)),
)
deltas = st.lists(
    st.tuples(st.text(max_size=5), st.lists(st.tuples(st.integers(0, 99), logprobs), max_size=3)), min_size=1
)


@given(st.lists(deltas, min_size=1, max_size=3))
def test_a_replay_adds_up_to_what_was_recorded(choices) -> None:
    recorder = Recorder(len(choices))
    for index, parts in enumerate(choices):
        for number, (text, tokens) in enumerate(parts):
            last = number == len(parts) - 1
            recorder.add(
                ChoiceDelta(
                    index,
                    Delta(
                        request_id="old",
                        text=text,
                        token_ids=tuple(token for token, _ in tokens),
                        logprobs=tuple(logprob for _, logprob in tokens),
                        finish_reason=STOP if last else None,
                        stop_reason="." if last else None,
                    ),
                )
            )
    finished = recorder.finished()
    assert finished is not None
    stored = decode(encode(entry(*finished)))
    for index, item in enumerate(replay(stored.choices, "new")):
        parts = choices[index]
        assert item.index == index
        assert item.delta.request_id == "new"
        assert item.delta.text == "".join(text for text, _ in parts)
        assert item.delta.token_ids == tuple(token for _, tokens in parts for token, _ in tokens)
        assert item.delta.logprobs == tuple(logprob for _, tokens in parts for _, logprob in tokens)
        assert (item.delta.finish_reason, item.delta.stop_reason) == (STOP, ".")


def test_an_answer_with_an_open_choice_is_no_answer() -> None:
    recorder = Recorder(2)
    recorder.add(ChoiceDelta(0, Delta(request_id="r", text="done", finish_reason=STOP)))
    recorder.add(ChoiceDelta(1, Delta(request_id="r", text="not yet")))
    assert recorder.finished() is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"foreign",
        msgspec.msgpack.encode({"version": 1}),
        encode(msgspec.structs.replace(entry(), version=99)),
        encode(msgspec.structs.replace(entry(), choices=())),
        encode(entry())[:-3],
    ],
    ids=["empty", "foreign", "other", "version", "nothing in it", "cut"],
)
def test_what_this_version_did_not_write_is_refused(data: bytes) -> None:
    with pytest.raises(EntryDecodeError):
        decode(data)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with pytest.raises(EntryDecodeError):
        decode(data)


def test_an_empty_choice_keeps_the_answer_out() -> None:
    assert storable(entry())
    assert not storable(entry(CachedChoice("text", (1,), STOP), CachedChoice("", (2,), STOP)))


@pytest.mark.parametrize(
    ("choice", "fits"),
    [
        (CachedChoice("t", (1,) * 32, STOP), True),
        (CachedChoice("t", (1,) * 33, STOP), False),
        (CachedChoice("t", (1,), LENGTH), False),
    ],
    ids=["within the limit", "longer than asked for", "cut off"],
)
def test_semantic_answers_are_whole_and_within_the_limit(make_request, choice, fits: bool) -> None:
    assert serves_semantically(entry(choice), make_request(), 1.0, None) is fits


def test_semantic_answers_expire(make_request) -> None:
    assert not serves_semantically(entry(), make_request(), 10.0, None)
    assert not serves_semantically(entry(), make_request(), 5.0, 4.0)
