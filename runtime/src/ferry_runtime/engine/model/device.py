"""Which device and number format to compute with, by what the machine can do."""

from __future__ import annotations

import time

import torch

from ferry_api.runtime_config import DType, Numerics
from ferry_runtime.engine.model.linear import Linear, can_pack, packed_linear, plain_linear
from ferry_runtime.engine.model.spec import DecoderSpec
from ferry_runtime.errors import EngineLoadError

_GIVEN = {
    DType.FLOAT32: torch.float32,
    DType.BFLOAT16: torch.bfloat16,
    DType.FLOAT16: torch.float16,
}
_CLEARLY_FASTER = 1.4  # bfloat16 changes answers a little; less gain than this is not worth it
_ROUNDS = 12
_SECONDS = 0.05  # for a shape's rounds, after the first few


def choose_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def choose_dtype(
    wanted: DType,
    numerics: Numerics,
    device: torch.device,
    spec: DecoderSpec,
    *,
    rows: int,
    saved_in_float32: bool,
) -> torch.dtype:
    """Auto: on CUDA bfloat16 (float16 on GPUs without it); on CPUs float32, or bfloat16 where the
    checkpoint has no more digits anyway, the processor multiplies it in hardware (AMX) and a
    measurement shows that it is clearly faster.

    Raises EngineLoadError for combinations that are not served.
    """
    if numerics is Numerics.DETERMINISTIC:
        return _deterministic(wanted, device)
    if wanted is not DType.AUTO:
        dtype = _GIVEN[wanted]
        if device.type == "cpu" and dtype == torch.float16:
            raise EngineLoadError("Float16 is served on GPUs only. On this machine use Float32 or BFloat16.")
        return dtype
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if saved_in_float32 or not _has_amx():
        return torch.float32
    return torch.bfloat16 if _bfloat16_gain(spec, rows) >= _CLEARLY_FASTER else torch.float32


def _deterministic(wanted: DType, device: torch.device) -> torch.dtype:
    if device.type != "cpu":
        raise EngineLoadError(
            "Deterministic numerics are served on CPUs only. Use engine.numerics Fast on a GPU."
        )
    if wanted not in (DType.AUTO, DType.FLOAT32):
        raise EngineLoadError(
            f"Deterministic numerics are served with Float32 only, not {wanted.value}. "
            "Set model.dtype to Float32, or engine.numerics to Fast."
        )
    return torch.float32


def _has_amx() -> bool:
    return bool(torch.cpu._is_amx_tile_supported())


def _bfloat16_gain(spec: DecoderSpec, rows: int) -> float:
    """How much faster a layer's matrices and the output layer are in bfloat16, for a decode batch."""
    inner = spec.heads * spec.head_dim
    up = spec.mlp_size * len(spec.layers[0].up.names)
    layer = ((inner, spec.hidden_size), (up, spec.hidden_size), (spec.hidden_size, spec.mlp_size))
    wide = narrow = 0.0
    for shape in layer:
        wide += _seconds(shape, rows, torch.float32)
        narrow += _seconds(shape, rows, torch.bfloat16)
    return wide / narrow


def _seconds(shape: tuple[int, int], rows: int, dtype: torch.dtype) -> float:
    weight = torch.randn(shape).to(dtype)
    linear = packed_linear(weight, None, rows) if can_pack(weight.device) else plain_linear(weight, None)
    return _fastest(linear, torch.randn(rows, shape[1]).to(dtype))


def _fastest(linear: Linear, x: torch.Tensor) -> float:
    """Seconds of the quickest call: noise from others only ever adds."""
    linear(x)
    best = float("inf")
    deadline = time.perf_counter() + _SECONDS
    for round_ in range(_ROUNDS):
        started = time.perf_counter()
        linear(x)
        best = min(best, time.perf_counter() - started)
        if round_ >= 2 and time.perf_counter() > deadline:
            break
    return best
