"""Linear layers in the form that is quickest on this machine.

On CPUs oneDNN multiplies faster by a matrix that it has laid out itself: by a quarter over all of a
small model's products in fp32, at 8 rows as at 64, once its pages are large (`engine.environment`).
Timing one matrix by itself shows the opposite for some shapes, since it then stays in the processor's
cache, as it never does in a step: so this is not decided by measuring at load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812

Linear = Callable[[torch.Tensor], torch.Tensor]
"""[tokens, inputs] → [tokens, outputs]."""


@dataclass
class LinearFactory:
    """Builds linear layers for a decode batch of ``rows`` rows."""

    rows: int
    dtype: torch.dtype
    device: torch.device
    pack: bool = True  # where it can be done
    weights_bytes: int = 0

    def build(self, weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
        """``weight`` is [outputs, inputs]; the caller lets go of it, so only one copy stays."""
        weight = self.convert(weight)
        bias = None if bias is None else self.convert(bias)
        self.weights_bytes += _bytes(weight) + (0 if bias is None else _bytes(bias))
        if self._packs:
            return packed_linear(weight, bias, self.rows)
        return plain_linear(weight, bias)

    def build_shared(self, table: torch.Tensor) -> Linear:
        """For a matrix that stays in memory anyway (tied embeddings): packed it costs a second copy."""
        if self._packs:
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

    @property
    def _packs(self) -> bool:
        return self.pack and can_pack(self.device)


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


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
