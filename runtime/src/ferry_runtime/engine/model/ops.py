"""Norms and activations, as functions of a tensor alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812

from ferry_runtime.engine.model.spec import NormKind, NormSpec
from ferry_runtime.errors import EngineLoadError

Op = Callable[[torch.Tensor], torch.Tensor]


def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


def _quick_gelu(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Op] = {
    "gelu": F.gelu,
    "gelu_fast": _gelu_tanh,  # the same formula, written otherwise
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "quick_gelu": _quick_gelu,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}


def activation(name: str) -> Op:
    try:
        return ACTIVATIONS[name]
    except KeyError:
        raise EngineLoadError(
            f"config.json: the activation {name!r} is not served; those that are: "
            f"{', '.join(sorted(ACTIVATIONS))}."
        ) from None


def gated(name: str) -> Op:
    """[tokens, 2 · inner] holding gate and up → [tokens, inner]."""
    act = activation(name)

    def combine(x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        return act(gate).mul_(up)

    return combine


def norm(spec: NormSpec, weight: torch.Tensor | None, bias: torch.Tensor | None, out: torch.dtype) -> Op:
    """Over the last dimension, computed in fp32 and returned as ``out``.

    ``weight`` and ``bias`` are fp32, [size]. Half-precision models' values are rounded once, after
    the scaling (transformers' Llama rounds before it as well).
    """
    eps = spec.eps
    if spec.kind is NormKind.LAYER:
        return lambda x: F.layer_norm(x.float(), x.shape[-1:], weight, bias, eps).to(out)
    if weight is not None and spec.kind is NormKind.RMS_OFFSET:
        weight = weight + 1.0
    return lambda x: F.rms_norm(x.float(), x.shape[-1:], weight, eps).to(out)


def softcap(x: torch.Tensor, limit: float) -> torch.Tensor:
    """limit · tanh(x / limit), in place."""
    return x.div_(limit).tanh_().mul_(limit)
