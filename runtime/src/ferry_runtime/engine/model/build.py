"""Builds a `Decoder` from its description and a checkpoint, layer by layer, so that no more than one
layer's weights are in memory twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ferry_runtime.engine.model.decoder import Decoder, Ends, Layer
from ferry_runtime.engine.model.linear import Linear, LinearFactory
from ferry_runtime.engine.model.ops import Op, activation, gated, norm
from ferry_runtime.engine.model.rope import Rotation
from ferry_runtime.engine.model.spec import (
    DecoderSpec,
    LayerSpec,
    NormKind,
    NormSpec,
    ProjectionSpec,
    QkvLayout,
)
from ferry_runtime.engine.model.weights import Checkpoint
from ferry_runtime.errors import EngineLoadError


@dataclass(frozen=True, slots=True)
class Built:
    decoder: Decoder
    dtype: torch.dtype
    parameters: int
    weights_bytes: int


def build_decoder(
    spec: DecoderSpec,
    checkpoint: Checkpoint,
    linears: LinearFactory,
    progress: Callable[[float], None] = lambda _share: None,
) -> Built:
    """``progress`` gets the share of layers that are loaded, 0 to 1."""
    builder = _Builder(spec, checkpoint, linears)
    layers = []
    for index, layer in enumerate(spec.layers):
        layers.append(builder.layer(layer))
        progress((index + 1) / (len(spec.layers) + 1))
    ends = builder.ends()
    unused = checkpoint.unused()
    if unused:
        raise EngineLoadError(
            f"The checkpoint holds tensors that a {spec.family} model does not have, such as {unused[0]}: "
            "it would not be served exactly."
        )
    rotations = [Rotation(rope, linears.device, linears.dtype) for rope in spec.ropes]
    progress(1.0)
    decoder = Decoder(spec, ends, layers, rotations)
    return Built(decoder, linears.dtype, builder.parameters, linears.weights_bytes)


class _Builder:
    def __init__(self, spec: DecoderSpec, checkpoint: Checkpoint, linears: LinearFactory) -> None:
        self._spec = spec
        self._checkpoint = checkpoint
        self._linears = linears
        self.parameters = 0

    def layer(self, layer: LayerSpec) -> Layer:
        spec = self._spec
        hidden, inner = spec.hidden_size, spec.heads * spec.head_dim
        kv = spec.kv_heads * spec.head_dim
        outputs = (inner, kv, kv) if len(layer.qkv.names) == 3 else (inner + 2 * kv,)
        width = spec.mlp_size
        return Layer(
            placement=layer.placement,
            input_norm=self._norm(layer.input_norm, hidden),
            qkv=self._linear(layer.qkv, outputs, hidden),
            query_norm=self._optional_norm(layer.query_norm, spec.head_dim),
            key_norm=self._optional_norm(layer.key_norm, spec.head_dim),
            rope=layer.attention.rope,
            output=self._linear(layer.output, (hidden,), inner),
            post_attention_norm=self._optional_norm(layer.post_attention_norm, hidden, torch.float32),
            mlp_norm=self._norm(layer.mlp_norm, hidden),
            up=self._linear(layer.up, (width,) * len(layer.up.names), hidden),
            activation=gated(layer.activation) if layer.gated else activation(layer.activation),
            down=self._linear(layer.down, (hidden,), width),
            post_mlp_norm=self._optional_norm(layer.post_mlp_norm, hidden, torch.float32),
        )

    def ends(self) -> Ends:
        spec, embedding, head = self._spec, self._spec.embedding, self._spec.head
        project = embedding.project
        width = embedding.width or spec.hidden_size
        tokens = self._checkpoint.tensor(f"{embedding.tokens}.weight", (spec.vocab_size, width))
        table = self._keep(tokens)
        positions = None
        if embedding.positions is not None:
            rows = spec.context + embedding.position_offset
            positions = self._keep(
                self._checkpoint.tensor(f"{embedding.positions}.weight", (rows, spec.hidden_size))
            )
        scale = None
        if embedding.scale != 1.0:
            scale = torch.tensor(embedding.scale, dtype=table.dtype, device=table.device)
        return Ends(
            tokens=table,
            token_scale=scale,
            positions=positions,
            position_offset=embedding.position_offset,
            project_in=None if project is None else self._linear(project, (spec.hidden_size,), width),
            norm=self._optional_norm(head.norm, spec.hidden_size),
            project_out=(
                None if head.project is None else self._linear(head.project, (width,), spec.hidden_size)
            ),
            head=self._head(tokens, table),
            logit_softcap=head.softcap,
        )

    def _head(self, tokens: torch.Tensor, table: torch.Tensor) -> Linear:
        """A tied output layer shares the embedding's memory where its packed copy would not be faster."""
        head = self._spec.head
        weight = self._checkpoint.first((f"{name}.weight" for name in head.names), tuple(tokens.shape))
        if weight is None and not head.tied:
            raise EngineLoadError(
                f"The checkpoint has no {head.names[0]}.weight, and config.json says that it is not tied."
            )
        if weight is None or (head.tied and torch.equal(weight, tokens)):
            return self._linears.build_shared(table)
        self.parameters += weight.numel()
        return self._linears.build(weight, None)

    def _keep(self, tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        self.parameters += tensor.numel()
        return self._linears.keep(tensor, dtype)

    def _optional_norm(self, spec: NormSpec | None, size: int, out: torch.dtype | None = None) -> Op | None:
        return None if spec is None else self._norm(spec, size, out)

    def _norm(self, spec: NormSpec, size: int, out: torch.dtype | None = None) -> Op:
        out = out or self._linears.dtype
        if not spec.affine:
            return norm(spec, None, None, out)
        weight = self._keep(self._checkpoint.tensor(f"{spec.name}.weight", (size,)), torch.float32)
        bias = None
        if spec.kind is NormKind.LAYER:
            bias = self._keep(self._checkpoint.tensor(f"{spec.name}.bias", (size,)), torch.float32)
        return norm(spec, weight, bias, out)

    def _linear(self, spec: ProjectionSpec, outputs: tuple[int, ...], inputs: int) -> Linear:
        weights, biases = [], []
        for name, size in zip(spec.names, outputs, strict=True):
            shape = (inputs, size) if spec.transposed else (size, inputs)
            weight = self._checkpoint.tensor(f"{name}.weight", shape)
            weights.append(weight.T if spec.transposed else weight)
            if spec.bias:
                biases.append(self._checkpoint.tensor(f"{name}.bias", (size,)))
        weight = weights[0] if len(weights) == 1 else torch.cat(weights)
        bias = None if not biases else torch.cat(biases)
        if spec.layout is QkvLayout.PER_HEAD:
            weight = self._stack_heads(weight)
            bias = None if bias is None else self._stack_heads(bias)
        self.parameters += weight.numel() + (0 if bias is None else bias.numel())
        return self._linears.build(weight, bias)

    def _stack_heads(self, tensor: torch.Tensor) -> torch.Tensor:
        """[heads · (query, key, value), …] → [queries, keys, values, …]."""
        spec = self._spec
        parts = tensor.view(spec.heads, 3, spec.head_dim, *tensor.shape[1:])
        return parts.transpose(0, 1).reshape(tensor.shape)
