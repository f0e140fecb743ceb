"""Llama and those that share its layer: Mistral (sliding window), Qwen2 (biases), Qwen3 (norms on
queries and keys)."""

from __future__ import annotations

from dataclasses import dataclass

from ferry_runtime.engine.model.config import RawConfig
from ferry_runtime.engine.model.rope import read_rope
from ferry_runtime.engine.model.spec import (
    AttentionSpec,
    DecoderSpec,
    EmbeddingSpec,
    HeadSpec,
    LayerSpec,
    NormKind,
    NormSpec,
    Placement,
    ProjectionSpec,
)
from ferry_runtime.errors import EngineLoadError


@dataclass(frozen=True, slots=True)
class _Shape:
    """What differs between these families' defaults and layers."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int | None
    head_dim: int | None
    context: int
    eos_token_id: int | None
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    head_norms: bool


def llama(config: RawConfig) -> DecoderSpec:
    bias = config.flag("attention_bias", default=False)
    shape = _Shape(
        vocab_size=32_000,
        hidden_size=4096,
        intermediate_size=11_008,
        layers=32,
        heads=32,
        kv_heads=None,
        head_dim=None,
        context=2048,
        eos_token_id=2,
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", default=False),
        head_norms=False,
    )
    return _describe(config, shape, windows=None)


def mistral(config: RawConfig) -> DecoderSpec:
    shape = _Shape(
        vocab_size=32_000,
        hidden_size=4096,
        intermediate_size=14_336,
        layers=32,
        heads=32,
        kv_heads=8,
        head_dim=None,
        context=131_072,
        eos_token_id=2,
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
        head_norms=False,
    )
    window = config.optional_integer("sliding_window", default=4096)
    layers = config.integer("num_hidden_layers", default=shape.layers)
    return _describe(config, shape, windows=(window,) * layers)


def qwen2(config: RawConfig) -> DecoderSpec:
    return _qwen(config, head_dim=None, qkv_bias=True, output_bias=False, head_norms=False)


def qwen3(config: RawConfig) -> DecoderSpec:
    bias = config.flag("attention_bias", default=False)
    return _qwen(config, head_dim=128, qkv_bias=bias, output_bias=bias, head_norms=True)


def _qwen(
    config: RawConfig, *, head_dim: int | None, qkv_bias: bool, output_bias: bool, head_norms: bool
) -> DecoderSpec:
    shape = _Shape(
        vocab_size=151_936,
        hidden_size=4096,
        intermediate_size=22_016,
        layers=32,
        heads=32,
        kv_heads=32,
        head_dim=head_dim,
        context=32_768,
        eos_token_id=None,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        mlp_bias=False,
        head_norms=head_norms,
    )
    return _describe(config, shape, windows=_qwen_windows(config, shape.layers))


def _qwen_windows(config: RawConfig, default_layers: int) -> tuple[int | None, ...]:
    layers = config.integer("num_hidden_layers", default=default_layers)
    window = None
    if config.flag("use_sliding_window", default=False):
        window = config.optional_integer("sliding_window", default=4096)
    first = config.integer("max_window_layers", default=28)
    kinds = config.strings("layer_types")
    if kinds is None:
        return tuple(window if index >= first else None for index in range(layers))
    return layer_windows(kinds, window, layers)


def layer_windows(kinds: tuple[str, ...], window: int | None, layers: int) -> tuple[int | None, ...]:
    """One window (or None) per layer from the names in layer_types."""
    unknown = set(kinds) - {"full_attention", "sliding_attention"}
    if unknown:
        raise EngineLoadError(
            f"config.json: layer_types names {', '.join(sorted(unknown))}; served are full_attention and "
            "sliding_attention."
        )
    if len(kinds) != layers:
        raise EngineLoadError(f"config.json: layer_types must name all {layers} layers.")
    if "sliding_attention" in kinds and window is None:
        raise EngineLoadError(
            "config.json: layer_types has sliding_attention, but sliding_window is not set."
        )
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def _describe(config: RawConfig, shape: _Shape, windows: tuple[int | None, ...] | None) -> DecoderSpec:
    hidden = config.integer("hidden_size", default=shape.hidden_size)
    heads = config.integer("num_attention_heads", default=shape.heads)
    kv_heads = config.optional_integer("num_key_value_heads", default=shape.kv_heads) or heads
    head_dim = config.optional_integer("head_dim", default=shape.head_dim) or hidden // heads
    layers = config.integer("num_hidden_layers", default=shape.layers)
    context = config.integer("max_position_embeddings", default=shape.context)
    eps = config.number("rms_norm_eps", default=1e-6)
    activation = config.text("hidden_act", default="silu")
    windows = windows or (None,) * layers

    def layer(index: int) -> LayerSpec:
        at = f"layers.{index}"

        def norm(name: str) -> NormSpec:
            return NormSpec(f"{at}.{name}", NormKind.RMS, eps)

        return LayerSpec(
            attention=AttentionSpec(scale=head_dim**-0.5, rope=0, window=windows[index]),
            placement=Placement.PRE,
            input_norm=norm("input_layernorm"),
            qkv=ProjectionSpec(tuple(f"{at}.self_attn.{part}_proj" for part in "qkv"), bias=shape.qkv_bias),
            query_norm=norm("self_attn.q_norm") if shape.head_norms else None,
            key_norm=norm("self_attn.k_norm") if shape.head_norms else None,
            output=ProjectionSpec((f"{at}.self_attn.o_proj",), bias=shape.output_bias),
            mlp_norm=norm("post_attention_layernorm"),
            up=ProjectionSpec((f"{at}.mlp.gate_proj", f"{at}.mlp.up_proj"), bias=shape.mlp_bias),
            down=ProjectionSpec((f"{at}.mlp.down_proj",), bias=shape.mlp_bias),
            activation=activation,
            gated=True,
        )

    tied = config.flag("tie_word_embeddings", default=False)
    return DecoderSpec(
        family=config.model_type,
        prefixes=("model.", ""),
        vocab_size=config.integer("vocab_size", default=shape.vocab_size),
        hidden_size=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        mlp_size=config.integer("intermediate_size", default=shape.intermediate_size),
        context=context,
        embedding=EmbeddingSpec("embed_tokens"),
        layers=tuple(layer(index) for index in range(layers)),
        head=HeadSpec(tied, NormSpec("norm", NormKind.RMS, eps)),
        ropes=(read_rope(config, head_dim=head_dim, context=context),),
        eos_token_id=shape.eos_token_id,
        ignored=("rotary_emb.inv_freq",),
    )
