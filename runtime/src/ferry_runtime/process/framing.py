"""Frames on a stream socket: four bytes of length, little-endian, then one MessagePack message.

A frame of length zero is the parent's goodbye: finish and exit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

HEADER = struct.Struct("<I")
GOODBYE = HEADER.pack(0)

# Far above any real message (a prompt of a million tokens is 5 MB): a larger length means that the
# stream is out of step, and allocating it would only hide that.
MAX_FRAME_BYTES = 256 * 1024 * 1024


class FrameError(Exception):
    """The peer's bytes are not frames."""


_encoder = msgspec.msgpack.Encoder()


def encode_frame(message: msgspec.Struct) -> bytearray:
    frame = bytearray(HEADER.size)
    _encoder.encode_into(message, frame, HEADER.size)
    HEADER.pack_into(frame, 0, len(frame) - HEADER.size)
    return frame


def frame_length(header: bytes | bytearray | memoryview) -> int:
    (length,) = HEADER.unpack_from(header)
    if length > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
    return int(length)


class FrameBuffer:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each frame's payload that ``data`` completes, in order; b"" is a goodbye."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= HEADER.size:
                with memoryview(self._buffer) as view:
                    end = start + HEADER.size + frame_length(view[start:])
                    if len(view) < end:
                        break
                    payload = bytes(view[start + HEADER.size : end])
                start = end
                yield payload
        finally:
            del self._buffer[:start]
