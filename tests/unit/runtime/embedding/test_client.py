"""What of the embedder needs no model."""

from __future__ import annotations

import struct

from ferry_runtime.embedding.client import to_floats


def test_a_vectors_bytes_become_numbers() -> None:
    assert to_floats(struct.pack("<2f", 0.5, -1.0)) == [0.5, -1.0]
