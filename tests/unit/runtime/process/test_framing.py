"""Frames are cut from a byte stream however the kernel delivers it."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferry_runtime.process.framing import (
    GOODBYE,
    HEADER,
    MAX_FRAME_BYTES,
    FrameBuffer,
    FrameError,
    encode_frame,
)


class Note(msgspec.Struct, frozen=True):
    text: str


@settings(deadline=None)
@given(st.lists(st.text(max_size=50), max_size=8), st.lists(st.integers(1, 40), min_size=1))
def test_any_partition_of_the_stream_gives_the_same_frames(texts: list[str], sizes: list[int]) -> None:
    stream = b"".join(bytes(encode_frame(Note(text))) for text in texts)
    buffer, received, position, turn = FrameBuffer(), [], 0, 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        received += buffer.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    assert [msgspec.msgpack.decode(frame, type=Note).text for frame in received] == texts


def test_goodbye_is_an_empty_frame() -> None:
    assert list(FrameBuffer().feed(GOODBYE)) == [b""]


def test_a_length_over_the_limit_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(FrameError):
        list(FrameBuffer().feed(HEADER.pack(MAX_FRAME_BYTES + 1)))
