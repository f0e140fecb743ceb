"""What a decoder-only model computes, as plain data: one description for every family.

A family module turns a config.json into a `DecoderSpec`; `decoder` builds from it and the
checkpoint. Names are tensor names in the checkpoint, without the family's prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class NormKind(Enum):
    LAYER = "layer"
    RMS = "rms"
    RMS_OFFSET = "rms_offset"  # Gemma: the stored weight is added to 1


class Placement(Enum):
    """Where a layer's norms stand."""

    PRE = "pre"  # x + f(norm(x))
    POST = "post"  # norm(x + f(x)): OPT-350m
    PARALLEL = "parallel"  # x + attention(norm1(x)) + mlp(norm2(x)): GPT-NeoX


class QkvLayout(Enum):
    STACKED = "stacked"  # all queries, then keys, then values
    PER_HEAD = "per_head"  # query, key, value of head 0, then of head 1, …: GPT-NeoX


@dataclass(frozen=True, slots=True)
class NormSpec:
    name: str
    kind: NormKind
    eps: float
    affine: bool = True


@dataclass(frozen=True, slots=True)
class ProjectionSpec:
    """A linear layer. Several names are stacked into one matrix along the outputs."""

    names: tuple[str, ...]
    bias: bool
    transposed: bool = False  # GPT-2's Conv1D stores [inputs, outputs]
    layout: QkvLayout = QkvLayout.STACKED


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """Rotary embedding (arXiv 2104.09864) of the first ``dim`` dimensions of a head.

    ``kind`` is one of those in `rope.KINDS`; the factors are theirs and 0 where they have none.
    """

    dim: int
    theta: float
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 0.0
    high_freq_factor: float = 0.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    original_context: int = 0
    truncate: bool = True


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    scale: float
    rope: int | None = None  # which of DecoderSpec.ropes
    window: int | None = None  # a token sees itself and window - 1 before it
    softcap: float | None = None  # scores become softcap · tanh(scores / softcap)


@dataclass(frozen=True, slots=True)
class LayerSpec:
    attention: AttentionSpec
    placement: Placement
    input_norm: NormSpec
    qkv: ProjectionSpec
    output: ProjectionSpec
    mlp_norm: NormSpec
    up: ProjectionSpec  # a gated MLP stacks gate and up
    down: ProjectionSpec
    activation: str
    gated: bool
    query_norm: NormSpec | None = None  # per head, before the rotation
    key_norm: NormSpec | None = None
    post_attention_norm: NormSpec | None = None  # on the branch, before it is added (Gemma)
    post_mlp_norm: NormSpec | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingSpec:
    tokens: str
    scale: float = 1.0
    positions: str | None = None  # a learned table
    position_offset: int = 0  # OPT keeps two rows for padding
    width: int | None = None  # of the table, where it is not the hidden size …
    project: ProjectionSpec | None = None  # … and is projected to it


@dataclass(frozen=True, slots=True)
class HeadSpec:
    tied: bool  # to the token embedding, unless the checkpoint holds another matrix
    norm: NormSpec | None
    names: tuple[str, ...] = ("lm_head",)  # without the family's prefix; the first that exists
    project: ProjectionSpec | None = None
    softcap: float | None = None


@dataclass(frozen=True, slots=True)
class DecoderSpec:
    family: str
    prefixes: tuple[str, ...]  # of tensor names; the first that fits is taken
    vocab_size: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_size: int
    context: int  # positions that the model was made for
    embedding: EmbeddingSpec
    layers: tuple[LayerSpec, ...]
    head: HeadSpec
    ropes: tuple[RopeSpec, ...] = ()
    eos_token_id: int | None = None  # when no file names one
    ignored: tuple[str, ...] = ()  # endings of tensors that older checkpoints carry in vain
