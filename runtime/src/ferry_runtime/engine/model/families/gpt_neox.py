"""GPT-NeoX and Pythia: parallel residual, partial rotary embedding, fused per-head projections."""

from __future__ import annotations

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
    QkvLayout,
)


def describe(config: RawConfig) -> DecoderSpec:
    hidden = config.integer("hidden_size", default=6144)
    heads = config.integer("num_attention_heads", default=64)
    head_dim = hidden // heads
    context = config.integer("max_position_embeddings", default=2048)
    eps = config.number("layer_norm_eps", default=1e-5)
    bias = config.flag("attention_bias", default=True)
    parallel = config.flag("use_parallel_residual", default=True)
    activation = config.text("hidden_act", default="gelu")

    def layer(index: int) -> LayerSpec:
        at = f"layers.{index}"
        return LayerSpec(
            attention=AttentionSpec(scale=head_dim**-0.5, rope=0),
            placement=Placement.PARALLEL if parallel else Placement.PRE,
            input_norm=NormSpec(f"{at}.input_layernorm", NormKind.LAYER, eps),
            qkv=ProjectionSpec((f"{at}.attention.query_key_value",), bias=bias, layout=QkvLayout.PER_HEAD),
            output=ProjectionSpec((f"{at}.attention.dense",), bias=bias),
            mlp_norm=NormSpec(f"{at}.post_attention_layernorm", NormKind.LAYER, eps),
            up=ProjectionSpec((f"{at}.mlp.dense_h_to_4h",), bias=True),
            down=ProjectionSpec((f"{at}.mlp.dense_4h_to_h",), bias=True),
            activation=activation,
            gated=False,
        )

    layers = config.integer("num_hidden_layers", default=44)
    tied = config.flag("tie_word_embeddings", default=False)
    return DecoderSpec(
        family=config.model_type,
        prefixes=("gpt_neox.", ""),
        vocab_size=config.integer("vocab_size", default=50_432),
        hidden_size=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        mlp_size=config.integer("intermediate_size", default=24_576),
        context=context,
        embedding=EmbeddingSpec("embed_in"),
        layers=tuple(layer(index) for index in range(layers)),
        head=HeadSpec(
            tied, NormSpec("final_layer_norm", NormKind.LAYER, eps), names=("lm_head", "embed_out")
        ),
        ropes=(read_rope(config, head_dim=head_dim, context=context, partial=0.25),),
        eos_token_id=2,
        ignored=("attention.bias", "attention.masked_bias", "rotary_emb.inv_freq"),
    )
