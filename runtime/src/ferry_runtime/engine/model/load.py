"""From a prepared model directory to a runner that is ready to step."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import torch

from ferry_api.runtime_config import ColdConfig, Numerics
from ferry_runtime.engine.model import cost, selftest
from ferry_runtime.engine.model.build import Built, build_decoder
from ferry_runtime.engine.model.config import RawConfig, eos_token_ids
from ferry_runtime.engine.model.deterministic import CHUNK_TOKENS, DeterministicRunner, fixed_rows
from ferry_runtime.engine.model.device import choose_device, choose_dtype
from ferry_runtime.engine.model.families import describe
from ferry_runtime.engine.model.kv.arena import Arena, KvShape
from ferry_runtime.engine.model.kv.budget import available_memory, block_tokens, kv_bytes
from ferry_runtime.engine.model.kv.pool import KvPool
from ferry_runtime.engine.model.linear import LinearFactory
from ferry_runtime.engine.model.runner import TorchRunner
from ferry_runtime.engine.model.shapes import KEY_MULTIPLE
from ferry_runtime.engine.model.spec import DecoderSpec
from ferry_runtime.engine.model.weights import Checkpoint
from ferry_runtime.engine.protocol import ModelInfo
from ferry_runtime.errors import EngineLoadError

Progress = Callable[[str, float], None]


@torch.no_grad()
def load_runner(
    directory: Path, cold: ColdConfig, *, threads: int | None = None, progress: Progress | None = None
) -> TorchRunner:
    """Load the model in ``directory`` (config.json, safetensors) as ``cold`` asks.

    ``threads`` bounds torch's threads. ``progress`` is called with a stage ("weights", "measure") and
    its share done, 0 to 1. Raises EngineLoadError with a sentence for the user.
    """
    started = time.perf_counter()
    report = progress or (lambda _stage, _share: None)
    if threads is not None:
        torch.set_num_threads(threads)
    config = RawConfig.read(directory)
    spec = describe(config)
    slots = cold.batching.max_batch_size
    context = _context(cold.model.context_length, spec)
    device = choose_device()
    checkpoint = Checkpoint(directory, spec)
    dtype = choose_dtype(
        cold.model.dtype,
        cold.engine.numerics,
        device,
        spec,
        rows=slots,
        saved_in_float32=checkpoint.keeps_float32(spec),
    )
    deterministic = cold.engine.numerics is Numerics.DETERMINISTIC
    rows = fixed_rows(slots) if deterministic else slots
    linears = LinearFactory(rows, dtype, device)
    built = build_decoder(spec, checkpoint, linears, lambda share: report("weights", share))
    pool = _pool(spec, cold, context, device, dtype)
    info = _info(built, pool, cold, context, eos_token_ids(directory, config, spec.eos_token_id))
    runner: TorchRunner
    if deterministic:
        runner = fixed = DeterministicRunner(built.decoder, pool, info, CHUNK_TOKENS)
        selftest.check(fixed)
    else:
        runner = TorchRunner(built.decoder, pool, info, chunk_tokens=1)
    report("measure", 0.0)
    runner.cost = cost.measure(runner, CHUNK_TOKENS, spec)
    report("measure", 1.0)
    runner.info = msgspec.structs.replace(info, load_seconds=time.perf_counter() - started)
    return runner


def _context(wanted: int | None, spec: DecoderSpec) -> int:
    if wanted is None:
        return spec.context
    if wanted > spec.context:
        raise EngineLoadError(
            f"model.contextLength is {wanted}, but this model was made for {spec.context} positions. "
            f"Set it to at most {spec.context}, or leave it out."
        )
    return wanted


def _pool(
    spec: DecoderSpec, cold: ColdConfig, context: int, device: torch.device, dtype: torch.dtype
) -> KvPool:
    shape = KvShape(len(spec.layers), spec.kv_heads, spec.head_dim, _kv_dtype(spec, device, dtype))
    slots = cold.batching.max_batch_size
    size = kv_bytes(
        shape,
        configured=cold.engine.kv_cache_bytes,
        slots=slots,
        context=context,
        available=available_memory(device),
        on_gpu=device.type == "cuda",
    )
    block = block_tokens(shape)
    arena = Arena(shape, slots, shape.region_tokens(context, KEY_MULTIPLE), device)
    blocks = size // (block * shape.token_bytes)
    return KvPool(
        arena,
        blocks=blocks,
        block_tokens=block,
        context=context,
        reuse_step=CHUNK_TOKENS if cold.engine.numerics is Numerics.DETERMINISTIC else 1,
        saved_blocks=max(0, blocks - slots * arena.tokens // block) if device.type == "cuda" else None,
    )


def _kv_dtype(spec: DecoderSpec, device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """The model's, but float32 where plain attention would multiply half precision on a CPU: every
    length would be a new shape to oneDNN, which keeps code for each (see `shapes`)."""
    plain = any(layer.attention.softcap is not None for layer in spec.layers)
    return torch.float32 if plain and device.type == "cpu" else dtype


def _info(built: Built, pool: KvPool, cold: ColdConfig, context: int, eos: tuple[int, ...]) -> ModelInfo:
    spec, shape = built.decoder.spec, pool.arena.shape
    return ModelInfo(
        family=spec.family,
        device=pool.arena.layers[0].device.type,
        dtype=str(built.dtype).removeprefix("torch."),
        numerics=cold.engine.numerics.value,
        vocab_size=spec.vocab_size,
        context_length=context,
        # Some configurations name ids of another tokenizer, which this model cannot generate.
        eos_token_ids=tuple(token for token in eos if 0 <= token < spec.vocab_size),
        slots=cold.batching.max_batch_size,
        kv_block_tokens=pool.block_tokens,
        kv_blocks=pool.blocks,
        parameters=built.parameters,
        weights_bytes=built.weights_bytes,
        kv_bytes=pool.blocks * pool.block_tokens * shape.token_bytes,
        load_seconds=0.0,
    )
