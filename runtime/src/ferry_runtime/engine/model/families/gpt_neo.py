"""GPT-Neo: GPT-2's frame with separate projections, unscaled scores and alternating local layers."""

from __future__ import annotations

from ferry_runtime.engine.model.config import RawConfig
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


def describe(config: RawConfig) -> DecoderSpec:
    hidden = config.integer("hidden_size", default=2048)
    heads = config.integer("num_heads", "num_attention_heads", default=16)
    eps = config.number("layer_norm_epsilon", default=1e-5)
    activation = config.text("activation_function", default="gelu_new")
    windows = _windows(config)

    def layer(index: int) -> LayerSpec:
        at = f"h.{index}"
        attention = f"{at}.attn.attention"
        return LayerSpec(
            attention=AttentionSpec(scale=1.0, window=windows[index]),
            placement=Placement.PRE,
            input_norm=NormSpec(f"{at}.ln_1", NormKind.LAYER, eps),
            qkv=ProjectionSpec(tuple(f"{attention}.{part}_proj" for part in "qkv"), bias=False),
            output=ProjectionSpec((f"{attention}.out_proj",), bias=True),
            mlp_norm=NormSpec(f"{at}.ln_2", NormKind.LAYER, eps),
            up=ProjectionSpec((f"{at}.mlp.c_fc",), bias=True),
            down=ProjectionSpec((f"{at}.mlp.c_proj",), bias=True),
            activation=activation,
            gated=False,
        )

    tied = config.flag("tie_word_embeddings", default=True)
    return DecoderSpec(
        family=config.model_type,
        prefixes=("transformer.", ""),
        vocab_size=config.integer("vocab_size", default=50_257),
        hidden_size=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        mlp_size=config.optional_integer("intermediate_size") or 4 * hidden,
        context=config.integer("max_position_embeddings", default=2048),
        embedding=EmbeddingSpec("wte", positions="wpe"),
        layers=tuple(layer(index) for index in range(len(windows))),
        head=HeadSpec(tied, NormSpec("ln_f", NormKind.LAYER, eps)),
        eos_token_id=50_256,
        ignored=("attn.attention.bias", "attn.attention.masked_bias"),
    )


def _windows(config: RawConfig) -> tuple[int | None, ...]:
    """attention_types is [[[kind, …], repeats], …]."""
    layers = config.integer("num_layers", "num_hidden_layers", default=24)
    window = config.integer("window_size", default=256)
    kinds: list[str] = []
    try:
        for pattern, repeats in config.raw("attention_types") or [[["global", "local"], 12]]:
            kinds += list(pattern) * repeats
    except (TypeError, ValueError):
        raise EngineLoadError("config.json: attention_types must be [[[kind, …], repeats], …].") from None
    if len(kinds) != layers or set(kinds) - {"global", "local"}:
        raise EngineLoadError(
            f"config.json: attention_types must name global or local for each of the {layers} layers."
        )
    return tuple(window if kind == "local" else None for kind in kinds)
