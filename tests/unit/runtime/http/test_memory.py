"""Memory of large bodies goes back to the system."""

from __future__ import annotations

import asyncio
import sys

import psutil
import pytest

from ferry_runtime.api.memory import LARGE_BODY, Trimmer

from .conftest import MakeClient
from .support import MODEL

MEGABYTE = 1 << 20


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


@pytest.mark.skipif(sys.platform != "linux", reason="malloc_trim is glibc's")
async def test_what_was_freed_between_what_is_in_use_goes_back() -> None:
    pieces = [bytes(2048) for _ in range(100_000)]
    kept = pieces[::50]  # these keep the heap from shrinking by itself
    full = resident()
    del pieces
    Trimmer(delay_seconds=0).soon()
    for _ in range(500):
        if resident() < full - 100 * MEGABYTE:
            break
        await asyncio.sleep(0.01)
    assert resident() < full - 100 * MEGABYTE
    assert len(kept) == 2000


@pytest.mark.parametrize(("size", "times"), [(LARGE_BODY + 1, 1), (100, 0)], ids=["large", "small"])
async def test_only_large_bodies_are_followed_by_a_trim(
    size: int, times: int, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []
    monkeypatch.setattr(Trimmer, "soon", lambda _: asked.append(None))
    client = await make_client()
    await client.post("/tokenize", json={"model": MODEL, "prompt": "a" * size})
    assert len(asked) == times
