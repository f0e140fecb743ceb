"""OPT: learned positions with two spare rows, optional projections around the stack, norms before
or (350m) after the branches."""

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

_EPS = 1e-5  # torch's default; OPT's config has no key for it


def describe(config: RawConfig) -> DecoderSpec:
    hidden = config.integer("hidden_size", default=768)
    heads = config.integer("num_attention_heads", default=12)
    narrow = config.optional_integer("word_embed_proj_dim") or hidden
    bias = config.flag("enable_bias", default=True)
    affine = config.flag("layer_norm_elementwise_affine", default=True)
    before = config.flag("do_layer_norm_before", default=True)
    final_norm = before and not config.flag("_remove_final_layer_norm", default=False)
    activation = config.text("activation_function", default="relu")

    def layer(index: int) -> LayerSpec:
        at = f"layers.{index}"
        return LayerSpec(
            attention=AttentionSpec(scale=(hidden // heads) ** -0.5),
            placement=Placement.PRE if before else Placement.POST,
            input_norm=NormSpec(f"{at}.self_attn_layer_norm", NormKind.LAYER, _EPS, affine),
            qkv=ProjectionSpec(tuple(f"{at}.self_attn.{part}_proj" for part in "qkv"), bias=bias),
            output=ProjectionSpec((f"{at}.self_attn.out_proj",), bias=bias),
            mlp_norm=NormSpec(f"{at}.final_layer_norm", NormKind.LAYER, _EPS, affine),
            up=ProjectionSpec((f"{at}.fc1",), bias=bias),
            down=ProjectionSpec((f"{at}.fc2",), bias=bias),
            activation=activation,
            gated=False,
        )

    def resize(name: str) -> ProjectionSpec | None:
        return ProjectionSpec((name,), bias=False) if narrow != hidden else None

    layers = config.integer("num_hidden_layers", default=12)
    tied = config.flag("tie_word_embeddings", default=True)
    return DecoderSpec(
        family=config.model_type,
        prefixes=("model.decoder.", "decoder.", ""),
        vocab_size=config.integer("vocab_size", default=50_272),
        hidden_size=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        mlp_size=config.integer("ffn_dim", default=3072),
        context=config.integer("max_position_embeddings", default=2048),
        embedding=EmbeddingSpec(
            "embed_tokens",
            positions="embed_positions",
            position_offset=2,
            width=narrow,
            project=resize("project_in"),
        ),
        layers=tuple(layer(index) for index in range(layers)),
        head=HeadSpec(
            tied,
            NormSpec("final_layer_norm", NormKind.LAYER, _EPS, affine) if final_norm else None,
            project=resize("project_out"),
        ),
        eos_token_id=2,
    )
