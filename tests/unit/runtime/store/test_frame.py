"""The envelope of stored values: exactly what was written, or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferry_runtime.store.frame import FrameError, seal, unseal


@given(st.binary())
def test_what_was_sealed_comes_back(body: bytes) -> None:
    assert unseal(seal(body)) == body


@given(st.binary(), st.data())
def test_a_cut_is_noticed(body: bytes, data) -> None:
    whole = seal(body)
    with pytest.raises(FrameError):
        unseal(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(), st.data())
def test_a_changed_byte_is_noticed(body: bytes, data) -> None:
    whole = bytearray(seal(body))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FrameError):
        unseal(bytes(whole))


def test_another_version_is_not_read() -> None:
    whole = bytearray(seal(b"body"))
    whole[3] += 1
    with pytest.raises(FrameError, match="version"):
        unseal(bytes(whole))
