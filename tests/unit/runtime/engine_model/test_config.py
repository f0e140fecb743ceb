"""config.json is read as transformers reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from ferry_runtime.engine.model.config import RawConfig, eos_token_ids
from ferry_runtime.engine.model.families import FAMILIES, describe
from ferry_runtime.engine.model.rope import inverse_frequencies
from ferry_runtime.engine.model.spec import DecoderSpec
from ferry_runtime.errors import EngineLoadError

CLASSES = {
    "gemma2": "Gemma2Config",
    "gemma3_text": "Gemma3TextConfig",
    "gpt2": "GPT2Config",
    "gpt_neo": "GPTNeoConfig",
    "gpt_neox": "GPTNeoXConfig",
    "llama": "LlamaConfig",
    "mistral": "MistralConfig",
    "opt": "OPTConfig",
    "qwen2": "Qwen2Config",
    "qwen3": "Qwen3Config",
}


def spec_of(model_type: str, **values: Any) -> DecoderSpec:
    return describe(RawConfig({"model_type": model_type, **values}))


def full_spec(model_type: str, **values: Any) -> DecoderSpec:
    """The same, by way of transformers' class, which writes every default out."""
    config = getattr(transformers, CLASSES[model_type])(**values)
    return describe(RawConfig(json.loads(config.to_json_string(use_diff=False))))


def test_every_family_is_compared() -> None:
    assert set(CLASSES) == set(FAMILIES)


@pytest.mark.parametrize("model_type", sorted(CLASSES))
def test_what_a_file_leaves_out_is_what_transformers_would_take(model_type: str) -> None:
    assert spec_of(model_type) == full_spec(model_type)


@pytest.mark.parametrize("model_type", sorted(CLASSES))
def test_end_of_sequence_defaults(model_type: str) -> None:
    assert spec_of(model_type).eos_token_id == getattr(transformers, CLASSES[model_type])().eos_token_id


OLDER = [
    ("llama", {"rope_theta": 500_000.0}),
    ("llama", {"rope_theta": 500_000.0, "rope_scaling": {"type": "linear", "factor": 2.0}}),
    (
        "llama",
        {
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 1024,
            }
        },
    ),
    ("llama", {"num_attention_heads": 16, "num_key_value_heads": 4, "hidden_size": 256}),
    ("mistral", {"sliding_window": None}),
    ("mistral", {"sliding_window": 77, "head_dim": 96}),
    ("qwen2", {"use_sliding_window": True, "max_window_layers": 20, "sliding_window": 99}),
    ("qwen2", {"use_sliding_window": False, "sliding_window": 99}),
    (
        "qwen2",
        {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    ),
    ("qwen3", {"head_dim": 64, "attention_bias": True}),
    ("gemma2", {"attn_logit_softcapping": None, "query_pre_attn_scalar": 144, "num_hidden_layers": 5}),
    ("gemma3_text", {"sliding_window_pattern": 3, "rope_theta": 77.0, "rope_local_base_freq": 55.0}),
    ("gemma3_text", {"rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window": 512}),
    ("gpt2", {"n_inner": 100, "scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True}),
    ("gpt_neo", {"num_layers": 3, "attention_types": [[["global"], 1], [["local"], 2]], "window_size": 5}),
    ("gpt_neox", {"rotary_pct": 0.5, "rotary_emb_base": 123.0, "use_parallel_residual": False}),
    ("opt", {"word_embed_proj_dim": 512, "do_layer_norm_before": False, "enable_bias": False}),
    ("opt", {"_remove_final_layer_norm": True, "layer_norm_elementwise_affine": False}),
]


@pytest.mark.parametrize(("model_type", "values"), OLDER, ids=lambda value: str(value)[:50])
def test_older_spellings(model_type: str, values: dict[str, Any]) -> None:
    assert spec_of(model_type, **values) == full_spec(model_type, **values)


@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": 3.0},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 512,
        },
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512},
        {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 512,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "mscale": 1.2,
            "mscale_all_dim": 0.8,
            "truncate": False,
        },
    ],
    ids=lambda parameters: f"{parameters['rope_type']}-{len(parameters)}",
)
def test_rotary_frequencies(parameters: dict[str, Any]) -> None:
    given = {"rope_theta": 20_000.0, **parameters}
    config = transformers.LlamaConfig(head_dim=32, max_position_embeddings=2048, rope_parameters=given)
    rope = describe(RawConfig(json.loads(config.to_json_string(use_diff=False)))).ropes[0]
    if parameters["rope_type"] == "default":
        expected = 1.0 / (20_000.0 ** (torch.arange(0, 32, 2).float() / 32))
        factor = 1.0
    else:
        expected, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config)
    torch.testing.assert_close(inverse_frequencies(rope), expected, rtol=1e-6, atol=0)
    assert (rope.attention_factor or 1.0) == pytest.approx(factor)


REFUSED = [
    ({"model_type": "mixtral"}, r"type 'mixtral' cannot be served.*it serves gemma2.*VLLM"),
    ({}, r"type 'unknown' cannot be served"),
    ({"model_type": "llama", "quantization_config": {"quant_method": "gptq"}}, r"checkpoint is quantized"),
    ({"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2.0}}, r"of kind 'dynamic'"),
    ({"model_type": "qwen2", "rope_scaling": {"rope_type": "longrope"}}, r"of kind 'longrope'"),
    ({"model_type": "llama", "num_key_value_heads": 5}, r"32 attention heads cannot share 5"),
    ({"model_type": "llama", "hidden_size": "big"}, r"hidden_size must be an integer"),
    ({"model_type": "llama", "num_hidden_layers": True}, r"num_hidden_layers must be an integer"),
    ({"model_type": "llama", "rms_norm_eps": "1e-6"}, r"rms_norm_eps must be a number"),
    ({"model_type": "llama", "rope_scaling": [1]}, r"rope_scaling must be an object"),
    ({"model_type": "gpt2", "add_cross_attention": True}, r"add_cross_attention"),
    ({"model_type": "gemma3_text", "use_bidirectional_attention": True}, r"see later ones"),
    ({"model_type": "qwen3", "layer_types": ["full_attention"]}, r"must name all 32 layers"),
    ({"model_type": "qwen3", "layer_types": ["chunked_attention"] * 32}, r"names chunked_attention"),
    (
        {"model_type": "qwen3", "layer_types": ["sliding_attention"] * 32},
        r"but sliding_window",
    ),
    ({"model_type": "gpt_neo", "attention_types": [[["global"], 3]]}, r"each of the 24 layers"),
    ({"model_type": "gpt_neo", "attention_types": 5}, r"attention_types must be"),
]


@pytest.mark.parametrize(("values", "sentence"), REFUSED, ids=lambda value: str(value)[:50])
def test_what_cannot_be_served_is_refused_with_a_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(EngineLoadError, match=sentence):
        describe(RawConfig(values))


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"'])
def test_a_broken_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(EngineLoadError, match=r"config\.json"):
        RawConfig.read(tmp_path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineLoadError, match=r"has no config\.json"):
        RawConfig.read(tmp_path)


@pytest.mark.parametrize(
    ("generation", "config", "expected"),
    [
        (None, {}, (9,)),
        (None, {"eos_token_id": None}, ()),
        (None, {"eos_token_id": 3}, (3,)),
        (None, {"eos_token_id": [3, 4]}, (3, 4)),
        ({"eos_token_id": [5, 6]}, {"eos_token_id": 3}, (5, 6)),
        ({}, {"eos_token_id": 3}, (3,)),
    ],
)
def test_end_of_sequence_tokens(
    tmp_path: Path, generation: dict[str, Any] | None, config: dict[str, Any], expected: tuple[int, ...]
) -> None:
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    assert eos_token_ids(tmp_path, RawConfig(config), default=9) == expected
