"""The envelope around every value in the shared store: magic, format version, checksum, body.

A store is shared with other programs and other versions of this one, and values arrive truncated
after a full disk. Whatever is not exactly what a program of this version wrote reads as absent.
"""

from __future__ import annotations

import struct
import zlib

MAGIC = b"FRY"
FRAME_VERSION = 1
_HEAD = struct.Struct("<3sBII")  # magic, version, body length, CRC-32 of the body


class FrameError(ValueError):
    """The bytes are no frame of this version, or they are damaged."""


def seal(body: bytes) -> bytes:
    return _HEAD.pack(MAGIC, FRAME_VERSION, len(body), zlib.crc32(body)) + body


def unseal(data: bytes) -> bytes:
    """The body. Raises FrameError for foreign, truncated, damaged or other-version bytes."""
    if len(data) < _HEAD.size:
        raise FrameError("too short")
    magic, version, length, checksum = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if magic != MAGIC or version != FRAME_VERSION:
        raise FrameError("foreign or of another version")
    if len(body) != length or zlib.crc32(body) != checksum:
        raise FrameError("truncated or damaged")
    return body
