"""Linear layers in the form that is quickest on this machine.

On CPUs oneDNN multiplies faster by a matrix that it has laid out itself. What that gains differs by
shape, dtype and processor (from nothing to a factor of two), so it is measured, once per shape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812

Linear = Callable[[torch.Tensor], torch.Tensor]
"""[tokens, inputs] → [tokens, outputs]."""

_ROUNDS = 12
_SECONDS = 0.05  # for a shape's rounds, after the first few
_CLEARLY = 0.85  # packed is the rule: noise must not decide against it


@dataclass
class LinearFactory:
    """Builds linear layers for a decode batch of ``rows`` rows.

    ``pack``: None measures per shape; Deterministic numerics fix it, since another kernel means
    other bits.
    """

    rows: int
    dtype: torch.dtype
    device: torch.device
    pack: bool | None = None
    weights_bytes: int = 0
    _choices: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def build(self, weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
        """``weight`` is [outputs, inputs]; the caller lets go of it, so only one copy stays."""
        weight = self.convert(weight)
        bias = None if bias is None else self.convert(bias)
        self.weights_bytes += _bytes(weight) + (0 if bias is None else _bytes(bias))
        if self._packs(weight):
            return packed_linear(weight, bias, self.rows)
        return plain_linear(weight, bias)

    def build_shared(self, table: torch.Tensor) -> Linear:
        """For a matrix that stays in memory anyway (tied embeddings): packed it costs a second copy."""
        if self._packs(table):
            self.weights_bytes += _bytes(table)
            return packed_linear(table, None, self.rows)
        return plain_linear(table, None)

    def keep(self, tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A tensor that is used as it is, in the model's dtype unless another is given."""
        kept = self.convert(tensor, dtype)
        self.weights_bytes += _bytes(kept)
        return kept

    def convert(self, tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """In memory of our own: the file's mapping may go."""
        return tensor.to(device=self.device, dtype=dtype or self.dtype, copy=True).contiguous()

    def _packs(self, weight: torch.Tensor) -> bool:
        if not can_pack(self.device):
            return False
        if self.pack is not None:
            return self.pack
        shape = tuple(weight.shape)
        if shape not in self._choices:
            self._choices[shape] = _packs_well(weight, self.rows)
        return self._choices[shape]


def can_pack(device: torch.device) -> bool:
    return device.type == "cpu" and torch._C._has_mkldnn


def plain_linear(weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
    def linear(x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, weight, bias)

    return linear


def packed_linear(weight: torch.Tensor, bias: torch.Tensor | None, rows: int) -> Linear:
    """``rows`` only tunes the layout: any number of rows is computed correctly."""
    packed = torch.ops.mkldnn._reorder_linear_weight.default(weight, rows)
    multiply = torch.ops.mkldnn._linear_pointwise.default

    def linear(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = multiply(x, packed, bias, "none", [], "")
        return result

    return linear


def _packs_well(weight: torch.Tensor, rows: int) -> bool:
    x = torch.randn(rows, weight.shape[1]).to(weight.dtype)
    packed, plain = fastest((packed_linear(weight, None, rows), plain_linear(weight, None)), x)
    return plain > packed * _CLEARLY


def fastest(linears: Sequence[Linear], x: torch.Tensor) -> list[float]:
    """Seconds of each one's quickest call, taken in turns: noise from others only ever adds."""
    for linear in linears:
        linear(x)
    best = [float("inf")] * len(linears)
    deadline = time.perf_counter() + _SECONDS
    for round_ in range(_ROUNDS):
        for index, linear in enumerate(linears):
            started = time.perf_counter()
            linear(x)
            best[index] = min(best[index], time.perf_counter() - started)
        if round_ >= 2 and time.perf_counter() > deadline:
            break
    return best


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
