"""GPT-2: learned positions, Conv1D projections, one fused query-key-value matrix."""

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
    if config.flag("add_cross_attention", default=False):
        raise EngineLoadError("config.json: add_cross_attention makes this an encoder-decoder's half.")
    hidden = config.integer("n_embd", "hidden_size", default=768)
    heads = config.integer("n_head", "num_attention_heads", default=12)
    eps = config.number("layer_norm_epsilon", default=1e-5)
    activation = config.text("activation_function", default="gelu_new")
    # reorder_and_upcast_attn only changes where half precision is widened; scores are fp32 here.
    base = (hidden // heads) ** -0.5 if config.flag("scale_attn_weights", default=True) else 1.0
    by_layer = config.flag("scale_attn_by_inverse_layer_idx", default=False)

    def layer(index: int) -> LayerSpec:
        at = f"h.{index}"

        def projection(name: str) -> ProjectionSpec:
            return ProjectionSpec((f"{at}.{name}",), bias=True, transposed=True)

        return LayerSpec(
            attention=AttentionSpec(scale=base / (index + 1) if by_layer else base),
            placement=Placement.PRE,
            input_norm=NormSpec(f"{at}.ln_1", NormKind.LAYER, eps),
            qkv=projection("attn.c_attn"),
            output=projection("attn.c_proj"),
            mlp_norm=NormSpec(f"{at}.ln_2", NormKind.LAYER, eps),
            up=projection("mlp.c_fc"),
            down=projection("mlp.c_proj"),
            activation=activation,
            gated=False,
        )

    layers = config.integer("n_layer", "num_hidden_layers", default=12)
    tied = config.flag("tie_word_embeddings", default=True)
    return DecoderSpec(
        family=config.model_type,
        prefixes=("transformer.", ""),
        vocab_size=config.integer("vocab_size", default=50_257),
        hidden_size=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        mlp_size=config.optional_integer("n_inner") or 4 * hidden,
        context=config.integer("n_positions", "max_position_embeddings", default=1024),
        embedding=EmbeddingSpec("wte", positions="wpe"),
        layers=tuple(layer(index) for index in range(layers)),
        head=HeadSpec(tied, NormSpec("ln_f", NormKind.LAYER, eps)),
        eos_token_id=50_256,
        ignored=("attn.bias", "attn.masked_bias"),
    )
