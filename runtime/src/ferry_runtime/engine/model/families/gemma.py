"""Gemma 2 and 3: norms around both branches, alternating windows, soft-capping (2), norms on
queries and keys and a second rotary base for local layers (3)."""

from __future__ import annotations

from ferry_runtime.engine.model.config import RawConfig
from ferry_runtime.engine.model.families.llama import layer_windows
from ferry_runtime.engine.model.rope import read_rope, rope_spec
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
    RopeSpec,
)
from ferry_runtime.errors import EngineLoadError

_LOCAL_THETA = 10_000.0
_GLOBAL_THETA = 1_000_000.0


def gemma2(config: RawConfig) -> DecoderSpec:
    windows = _windows(config, pattern=2)
    rope = read_rope(config, head_dim=_head_dim(config), context=_context(config, 8192))
    return _describe(
        config,
        windows,
        vocab_size=256_000,
        context=8192,
        ropes=(rope,),
        score_softcap=config.optional_number("attn_logit_softcapping", default=50.0),
        logit_softcap=config.optional_number("final_logit_softcapping", default=30.0),
        head_norms=False,
    )


def gemma3(config: RawConfig) -> DecoderSpec:
    windows = _windows(config, pattern=config.integer("sliding_window_pattern", default=6))
    return _describe(
        config,
        windows,
        vocab_size=262_208,
        context=131_072,
        ropes=_gemma3_ropes(config),
        score_softcap=None,  # transformers' Gemma 3 reads attn_logit_softcapping and does not apply it
        logit_softcap=config.optional_number("final_logit_softcapping"),
        head_norms=True,
    )


def _gemma3_ropes(config: RawConfig) -> tuple[RopeSpec, RopeSpec]:
    """Global and local layers' parameters, in the nested or the older flat spelling."""
    given = config.mapping("rope_parameters") or {}
    full = dict(given.get("full_attention") or {}) | dict(config.mapping("rope_scaling") or {})
    local = dict(given.get("sliding_attention") or {})
    full.setdefault("rope_theta", config.number("rope_theta", default=_GLOBAL_THETA))
    local.setdefault("rope_theta", config.number("rope_local_base_freq", default=_LOCAL_THETA))
    context = _context(config, 131_072)
    return (
        rope_spec(full, head_dim=_head_dim(config), context=context),
        rope_spec(local, head_dim=_head_dim(config), context=context),
    )


def _head_dim(config: RawConfig) -> int:
    return config.integer("head_dim", default=256)


def _context(config: RawConfig, default: int) -> int:
    return config.integer("max_position_embeddings", default=default)


def _windows(config: RawConfig, pattern: int) -> tuple[int | None, ...]:
    layers = config.integer("num_hidden_layers", default=26)
    window = config.optional_integer("sliding_window", default=4096)
    kinds = config.strings("layer_types") or tuple(
        "sliding_attention" if (index + 1) % pattern else "full_attention" for index in range(layers)
    )
    return layer_windows(kinds, window, layers)


def _describe(
    config: RawConfig,
    windows: tuple[int | None, ...],
    *,
    vocab_size: int,
    context: int,
    ropes: tuple[RopeSpec, ...],
    score_softcap: float | None,
    logit_softcap: float | None,
    head_norms: bool,
) -> DecoderSpec:
    if config.flag("use_bidirectional_attention", default=False):
        raise EngineLoadError(
            "config.json: use_bidirectional_attention lets tokens see later ones; served are causal models."
        )
    bias = config.flag("attention_bias", default=False)
    eps = config.number("rms_norm_eps", default=1e-6)
    scale = config.number("query_pre_attn_scalar", default=256) ** -0.5
    activation = config.text("hidden_activation", default="gelu_pytorch_tanh")

    def layer(index: int) -> LayerSpec:
        at = f"layers.{index}"
        window = windows[index]

        def norm(name: str) -> NormSpec:
            return NormSpec(f"{at}.{name}", NormKind.RMS_OFFSET, eps)

        return LayerSpec(
            attention=AttentionSpec(
                scale=scale,
                rope=1 if window is not None and len(ropes) > 1 else 0,
                window=window,
                softcap=score_softcap,
            ),
            placement=Placement.PRE,
            input_norm=norm("input_layernorm"),
            qkv=ProjectionSpec(tuple(f"{at}.self_attn.{part}_proj" for part in "qkv"), bias=bias),
            query_norm=norm("self_attn.q_norm") if head_norms else None,
            key_norm=norm("self_attn.k_norm") if head_norms else None,
            output=ProjectionSpec((f"{at}.self_attn.o_proj",), bias=bias),
            post_attention_norm=norm("post_attention_layernorm"),
            mlp_norm=norm("pre_feedforward_layernorm"),
            up=ProjectionSpec((f"{at}.mlp.gate_proj", f"{at}.mlp.up_proj"), bias=False),
            down=ProjectionSpec((f"{at}.mlp.down_proj",), bias=False),
            activation=activation,
            gated=True,
            post_mlp_norm=norm("post_feedforward_layernorm"),
        )

    hidden = config.integer("hidden_size", default=2304)
    tied = config.flag("tie_word_embeddings", default=True)
    return DecoderSpec(
        family=config.model_type,
        prefixes=("model.", ""),
        vocab_size=config.integer("vocab_size", default=vocab_size),
        hidden_size=hidden,
        heads=config.integer("num_attention_heads", default=8),
        kv_heads=config.integer("num_key_value_heads", default=4),
        head_dim=_head_dim(config),
        mlp_size=config.integer("intermediate_size", default=9216),
        context=_context(config, context),
        embedding=EmbeddingSpec("embed_tokens", scale=hidden**0.5),
        layers=tuple(layer(index) for index in range(len(windows))),
        head=HeadSpec(tied, NormSpec("norm", NormKind.RMS_OFFSET, eps), softcap=logit_softcap),
        ropes=ropes,
        eos_token_id=1,
    )
