"""A decoder-only transformer over a packed batch: all tokens of a step in one [tokens, hidden] matrix.

The sum that runs through the layers is fp32 in half-precision models too: rounding it after every
layer is most of what they lose, and it costs no time to keep.

Rows of several sequences stand beside each other; only attention knows which token belongs to which.
One forward for every family: Python's share of a decode step counts on CPUs, and transformers' own
modules take as long in Python as the small models' matrices do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from ferry_runtime.engine.model.linear import Linear
from ferry_runtime.engine.model.ops import Op, softcap
from ferry_runtime.engine.model.rope import Rotation, rotate_
from ferry_runtime.engine.model.spec import DecoderSpec, Placement


class Attention(Protocol):
    """One step's way to keys and values."""

    def attend(self, layer: int, qkv: torch.Tensor) -> torch.Tensor:
        """Store the keys and values in ``qkv`` and attend.

        ``qkv`` is [tokens, heads + 2 · kv_heads, head_dim], rotated; returns
        [tokens, heads · head_dim].
        """
        ...


@dataclass(frozen=True, slots=True)
class Layer:
    """The parts of one layer, built. What a family does not have is None."""

    placement: Placement
    input_norm: Op
    qkv: Linear
    query_norm: Op | None
    key_norm: Op | None
    rope: int | None
    output: Linear
    post_attention_norm: Op | None
    mlp_norm: Op
    up: Linear
    activation: Op
    down: Linear
    post_mlp_norm: Op | None

    def mlp(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.activation(self.up(x)))


@dataclass(frozen=True, slots=True)
class Ends:
    """What stands before and after the layers."""

    tokens: torch.Tensor  # [vocab, width]
    token_scale: torch.Tensor | None
    positions: torch.Tensor | None
    position_offset: int
    project_in: Linear | None
    norm: Op | None
    project_out: Linear | None
    head: Linear
    logit_softcap: float | None


@dataclass(frozen=True, slots=True)
class Pass:
    """What all layers of one step share: cos and sin per kind of rotation, the step's attention."""

    rotations: Sequence[tuple[torch.Tensor, torch.Tensor]]
    attention: Attention


class Decoder:
    def __init__(
        self, spec: DecoderSpec, ends: Ends, layers: Sequence[Layer], rotations: Sequence[Rotation]
    ) -> None:
        self.spec = spec
        self.dtype = ends.tokens.dtype
        self._ends = ends
        self._layers = tuple(layers)
        self._rotations = tuple(rotations)
        self._forwards = tuple(_FORWARDS[layer.placement] for layer in layers)
        self._heads = (spec.heads, spec.kv_heads, spec.head_dim)

    def hidden(self, tokens: torch.Tensor, positions: torch.Tensor, attention: Attention) -> torch.Tensor:
        """int64 [tokens] each → [tokens, hidden], after the final norm."""
        x = self._embed(tokens, positions)
        step = Pass([rotation.at(positions) for rotation in self._rotations], attention)
        for index, (layer, forward) in enumerate(zip(self._layers, self._forwards, strict=True)):
            x = forward(self, index, layer, x, step)
        ends = self._ends
        x = x.to(self.dtype) if ends.norm is None else ends.norm(x)
        return x if ends.project_out is None else ends.project_out(x)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[rows, hidden] → float32 [rows, vocab]."""
        logits = self._ends.head(hidden).float()
        if self._ends.logit_softcap is not None:
            logits = softcap(logits, self._ends.logit_softcap)
        return logits

    def _embed(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        ends = self._ends
        x = ends.tokens[tokens]
        if ends.token_scale is not None:
            x = x * ends.token_scale
        if ends.project_in is not None:
            x = ends.project_in(x)
        if ends.positions is not None:
            x = x + ends.positions[positions + ends.position_offset]
        return x.float()

    def attend(self, index: int, layer: Layer, x: torch.Tensor, step: Pass) -> torch.Tensor:
        heads, kv_heads, head_dim = self._heads
        qkv = layer.qkv(x).view(-1, heads + 2 * kv_heads, head_dim)
        if layer.query_norm is not None and layer.key_norm is not None:
            qkv[:, :heads] = layer.query_norm(qkv[:, :heads])
            qkv[:, heads : heads + kv_heads] = layer.key_norm(qkv[:, heads : heads + kv_heads])
        if layer.rope is not None:
            cos, sin = step.rotations[layer.rope]
            rotate_(qkv[:, : heads + kv_heads, : cos.shape[-1]], cos, sin)
        return layer.output(step.attention.attend(index, qkv))


def _pre(self: Decoder, index: int, layer: Layer, x: torch.Tensor, step: Pass) -> torch.Tensor:
    branch = self.attend(index, layer, layer.input_norm(x), step)
    if layer.post_attention_norm is not None:
        branch = layer.post_attention_norm(branch)
    x.add_(branch)
    branch = layer.mlp(layer.mlp_norm(x))
    if layer.post_mlp_norm is not None:
        branch = layer.post_mlp_norm(branch)
    return x.add_(branch)


def _post(self: Decoder, index: int, layer: Layer, x: torch.Tensor, step: Pass) -> torch.Tensor:
    dtype = self.dtype
    x = layer.input_norm(x.add_(self.attend(index, layer, x.to(dtype), step))).float()
    return layer.mlp_norm(x.add_(layer.mlp(x.to(dtype)))).float()


def _parallel(self: Decoder, index: int, layer: Layer, x: torch.Tensor, step: Pass) -> torch.Tensor:
    branch = self.attend(index, layer, layer.input_norm(x), step)
    return x.add_(layer.mlp(layer.mlp_norm(x))).add_(branch)


_Forward = Callable[[Decoder, int, Layer, torch.Tensor, Pass], torch.Tensor]
_FORWARDS: dict[Placement, _Forward] = {
    Placement.PRE: _pre,
    Placement.POST: _post,
    Placement.PARALLEL: _parallel,
}
