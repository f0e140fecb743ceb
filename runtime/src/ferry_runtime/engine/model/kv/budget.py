"""How much memory keys and values get, and whether that is enough to start."""

from __future__ import annotations

import math
from pathlib import Path

import psutil
import torch

from ferry_runtime.engine.model.kv.arena import KvShape
from ferry_runtime.engine.model.shapes import round_up
from ferry_runtime.errors import EngineLoadError

_SHARE = 0.4  # of the memory that is free once the weights are loaded, when nothing is configured
_GPU_SHARE = 0.85
_PREFIX_SHARE = 1.25  # slots of a full context each, and a quarter of that for kept prefixes
_MAX_BLOCK_TOKENS = 64


def block_tokens(shape: KvShape) -> int:
    """Tokens per block: whole pages of every layer's row, so that what is counted is what is used."""
    for tokens in (16, 32):
        if tokens * shape.row_bytes % 4096 == 0:
            return tokens
    return _MAX_BLOCK_TOKENS


def kv_bytes(
    shape: KvShape, *, configured: int | None, slots: int, context: int, available: int, on_gpu: bool = False
) -> int:
    """The bound in bytes.

    Raises EngineLoadError, with the sum, where one full-length request cannot fit; on a GPU, where
    memory cannot be reserved by address only, where one in every slot cannot.
    """
    block = block_tokens(shape)
    one = round_up(context, block) * shape.token_bytes
    share = _GPU_SHARE if on_gpu else _SHARE
    given = configured
    if given is None:
        given = min(int(slots * one * _PREFIX_SHARE), int(available * share))
    requests = slots if on_gpu else 1
    if given < requests * one:
        fits = given // (requests * block * shape.token_bytes) * block
        who = f"{requests} requests" if on_gpu else "One request"
        why = (
            "engine.kvCache.memory allows"
            if configured is not None
            else (f"{share:.0%} of the memory that is free after loading the weights is")
        )
        fewer = ", batching.maxBatchSize to less," if on_gpu else ""
        raise EngineLoadError(
            f"{who} of {context} tokens {'need' if on_gpu else 'needs'} {_mb(requests * one)} for keys and "
            f"values ({context} tokens of {shape.token_bytes} bytes each), but {why} {_mb(given)}. Set "
            f"engine.kvCache.memory to at least {_mb(requests * one)}{fewer} or "
            f"model.contextLength to at most {fits}."
        )
    return given


def available_memory(device: torch.device) -> int:
    """Bytes that this process may still take: of the machine, or of the container if that is less."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    left = _cgroup_left()
    return free if left is None else min(free, left)


def _cgroup_left(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What the control group's limit leaves (v2, then v1), or None without a limit."""
    for limit, usage in (
        (root / "memory.max", root / "memory.current"),
        (root / "memory" / "memory.limit_in_bytes", root / "memory" / "memory.usage_in_bytes"),
    ):
        try:
            return max(0, int(limit.read_text()) - int(usage.read_text()))
        except (OSError, ValueError):  # absent, or "max"
            continue
    return None


def _mb(size: int) -> str:
    return f"{math.ceil(size / 1_000_000):,} MB"
