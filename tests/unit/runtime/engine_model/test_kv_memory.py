"""Memory: committed as it is written, given back when it is not needed, bounded from the start."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import torch

from ferry_runtime.engine.model.kv import budget
from ferry_runtime.engine.model.kv.arena import Arena, KvShape
from ferry_runtime.engine.model.kv.budget import available_memory, block_tokens, kv_bytes
from ferry_runtime.errors import EngineLoadError

SHAPE = KvShape(layers=4, kv_heads=2, head_dim=64, dtype=torch.float32)  # 4 kB per token
MB = 1_000_000


def _resident() -> int:
    return int(psutil.Process().memory_info().rss)


def test_only_written_memory_counts_and_what_is_given_back_does_not() -> None:
    before = _resident()
    arena = Arena(SHAPE, 8, SHAPE.region_tokens(200_000, 64), torch.device("cpu"))  # 6.5 GB of addresses
    assert _resident() - before < 20 * MB
    arena.touch(3, 30_000)
    for layer in arena.layers:
        layer[3, :30_000] = 1.0
    assert 110 * MB < _resident() - before < 150 * MB
    arena.keep(3, 1_000)
    assert _resident() - before < 30 * MB
    assert all(bool((layer[3, :1_000] == 1).all()) for layer in arena.layers)
    assert not any(layer[3, 1_000:30_000].any() for layer in arena.layers)


def test_saved_prefixes_are_given_back_as_a_whole() -> None:
    arena = Arena(SHAPE, 1, SHAPE.region_tokens(30_000, 64), torch.device("cpu"))
    arena.touch(0, 20_000)
    for layer in arena.layers:
        layer[0, :20_000] = 2.0
    before = _resident()
    saved = arena.save(0, 20_000)
    assert _resident() - before > 70 * MB
    del saved
    assert _resident() - before < 10 * MB


@pytest.mark.parametrize("keep", [0, 1, 63, 64, 65, 100])
@pytest.mark.parametrize("shape", [SHAPE, KvShape(2, 1, 8, torch.float32), KvShape(1, 1, 6, torch.bfloat16)])
def test_what_is_not_kept_reads_as_zero(shape: KvShape, keep: int) -> None:
    arena = Arena(shape, 3, shape.region_tokens(200, 64), torch.device("cpu"))
    for layer in arena.layers:
        layer[:] = 1.0
    for slot in range(3):
        arena.touch(slot, arena.tokens)
    arena.keep(1, keep)
    for layer in arena.layers:
        assert bool((layer[1, :keep] == 1).all())
        assert not layer[1, keep:].any()
        assert bool((layer[[0, 2]] == 1).all())


def test_copies_and_saved_prefixes_hold_the_same(tmp_path: Path) -> None:
    arena = Arena(SHAPE, 2, SHAPE.region_tokens(100, 64), torch.device("cpu"))
    for layer in arena.layers:
        layer[0, :50] = torch.randn(50, 2, 2, 64)
    saved = arena.save(0, 50)
    arena.copy(0, 1, 0, 40)
    for layer in arena.layers:
        assert torch.equal(layer[1, :40], layer[0, :40])
        assert not layer[1, 40:].any()
    arena.keep(1, 0)
    arena.restore(saved, 1, 50)
    assert all(torch.equal(layer[1, :50], layer[0, :50]) for layer in arena.layers)


def test_rows_fill_whole_pages() -> None:
    for shape in (SHAPE, KvShape(1, 1, 6, torch.bfloat16), KvShape(30, 3, 64, torch.float32)):
        tokens = shape.region_tokens(100, 64)
        assert tokens >= 100
        assert tokens % 64 == 0
        assert tokens * shape.row_bytes % 4096 == 0
        assert block_tokens(shape) in {16, 32, 64}


def _bytes(
    *, configured: int | None, available: int = 10_000 * MB, context: int = 8192, on_gpu: bool = False
) -> int:
    return kv_bytes(
        SHAPE, configured=configured, slots=8, context=context, available=available, on_gpu=on_gpu
    )


def test_the_configured_bound_is_taken() -> None:
    assert _bytes(configured=50 * MB) == 50 * MB


def test_without_one_every_slot_gets_a_context_and_prefixes_a_quarter_more() -> None:
    assert _bytes(configured=None) == 8 * 8192 * 4096 * 5 // 4


def test_without_one_no_more_than_a_share_of_free_memory_is_taken() -> None:
    assert _bytes(configured=None, available=200 * MB) == 80 * MB


def test_too_little_for_one_request_is_refused_with_the_sum() -> None:
    with pytest.raises(EngineLoadError) as error:
        _bytes(configured=30 * MB)
    assert str(error.value) == (
        "One request of 8192 tokens needs 34 MB for keys and values (8192 tokens of 4096 bytes each), but "
        "engine.kvCache.memory allows 30 MB. Set engine.kvCache.memory to at least 34 MB or "
        "model.contextLength to at most 7312."
    )
    assert _bytes(configured=30 * MB, context=7312) == 30 * MB
    with pytest.raises(EngineLoadError, match="needs 30 MB"):
        _bytes(configured=29_949_951, context=7312)


def test_too_little_free_memory_is_refused_with_the_sum() -> None:
    with pytest.raises(EngineLoadError, match=r"but 40% of the memory that is free .* is 20 MB\. "):
        _bytes(configured=None, available=50 * MB)


def test_a_gpu_needs_room_for_every_slots_context() -> None:
    assert _bytes(configured=None, available=10_000 * MB, on_gpu=True) == 8 * 8192 * 4096 * 5 // 4
    with pytest.raises(EngineLoadError, match=r"8 requests of 8192 tokens need 269 MB.*maxBatchSize to less"):
        _bytes(configured=100 * MB, on_gpu=True)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"memory.max": "1000", "memory.current": "400"}, 600),
        ({"memory.max": "max", "memory.current": "400"}, None),
        ({"memory/memory.limit_in_bytes": "900", "memory/memory.usage_in_bytes": "1000"}, 0),
        ({}, None),
    ],
)
def test_a_containers_limit_counts(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert budget._cgroup_left(tmp_path) == expected


def test_free_memory_is_positive() -> None:
    assert available_memory(torch.device("cpu")) > 0
