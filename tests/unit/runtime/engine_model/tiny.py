"""Tiny random models of every family, and a loop that drives a runner as the engine's does."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedModel

from ferry_api.runtime_config import BatchingConfig, ColdConfig, DType, EngineConfig, ModelConfig, Numerics
from ferry_runtime.engine.model.contract import Row, Runner, Want
from ferry_runtime.engine.model.load import load_runner
from ferry_runtime.engine.model.runner import TorchRunner

VOCAB = 199
CONTEXT = 160
_COMMON = {"vocab_size": VOCAB, "eos_token_id": None, "bos_token_id": None, "pad_token_id": None}
_LLAMA_LIKE = {
    **_COMMON,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
}
_GPT_LIKE = {**_COMMON, "max_position_embeddings": CONTEXT, "hidden_size": 64}

# Each switches on what its family can do: windows, local layers, soft caps, odd head sizes.
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", _LLAMA_LIKE),
    "llama-tied-scaled": (
        "LlamaConfig",
        {
            **_LLAMA_LIKE,
            "tie_word_embeddings": True,
            "attention_bias": True,
            "mlp_bias": True,
            "head_dim": 24,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10_000.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
    ),
    "mistral": ("MistralConfig", {**_LLAMA_LIKE, "sliding_window": 24}),
    "mistral-full": ("MistralConfig", {**_LLAMA_LIKE, "sliding_window": None}),
    "qwen2": (
        "Qwen2Config",
        {**_LLAMA_LIKE, "use_sliding_window": True, "sliding_window": 20, "max_window_layers": 2},
    ),
    "qwen2-yarn": (
        "Qwen2Config",
        {
            **_LLAMA_LIKE,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10_000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 40,
            },
        },
    ),
    "qwen3": (
        "Qwen3Config",
        {
            **_LLAMA_LIKE,
            "head_dim": 32,
            "use_sliding_window": True,
            "sliding_window": 20,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
        },
    ),
    "gemma2": (
        "Gemma2Config",
        {
            **_LLAMA_LIKE,
            "head_dim": 16,
            "sliding_window": 24,
            "query_pre_attn_scalar": 24,
            "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 8.0,
        },
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {
            **_LLAMA_LIKE,
            "head_dim": 16,
            "sliding_window": 24,
            "query_pre_attn_scalar": 24,
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
            "final_logit_softcapping": 8.0,
        },
    ),
    "gpt2": (
        "GPT2Config",
        {
            **_COMMON,
            "n_positions": CONTEXT,
            "n_embd": 64,
            "n_layer": 4,
            "n_head": 4,
            "scale_attn_by_inverse_layer_idx": True,
            "reorder_and_upcast_attn": True,
        },
    ),
    "gpt_neo": (
        "GPTNeoConfig",
        {
            **_GPT_LIKE,
            "num_layers": 4,
            "num_heads": 4,
            "window_size": 24,
            "attention_types": [[["global", "local"], 2]],
        },
    ),
    "gpt_neox": (
        "GPTNeoXConfig",
        {
            **_GPT_LIKE,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "intermediate_size": 96,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5},
        },
    ),
    "gpt_neox-sequential": (
        "GPTNeoXConfig",
        {
            **_GPT_LIKE,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "intermediate_size": 96,
            "use_parallel_residual": False,
            "attention_bias": False,
        },
    ),
    "opt": (
        "OPTConfig",
        {**_GPT_LIKE, "num_hidden_layers": 4, "num_attention_heads": 4, "ffn_dim": 96},
    ),
    "opt-350m": (
        "OPTConfig",
        {
            **_GPT_LIKE,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "ffn_dim": 96,
            "word_embed_proj_dim": 48,
            "do_layer_norm_before": False,
            "activation_function": "tanh",
        },
    ),
}


def save_tiny_model(name: str, directory: Path, *, seed: int = 7, **changes: Any) -> PreTrainedModel:
    """Build a random model of a family, write it as safetensors, and return it for reference."""
    class_name, values = CONFIGS[name]
    config = getattr(transformers, class_name)(**{**values, **changes})
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.ndim == 1:  # norms and biases that start as ones and zeros hide faults
                parameter.add_(torch.randn_like(parameter) * 0.1)
            elif any(part in key for part in ("embed", "wte", "wpe")):
                # Small, or a tied output layer answers each token with itself.
                parameter.normal_(0.0, 0.02 if "gemma" in name else 0.3)
            else:
                parameter.normal_(0.0, 2.0 / parameter.shape[-1] ** 0.5)
    model.save_pretrained(directory)
    return model


def cold_config(
    *,
    slots: int = 8,
    context: int | None = None,
    kv_cache_bytes: int | None = 8_000_000,
    dtype: DType = DType.FLOAT32,
    numerics: Numerics = Numerics.FAST,
) -> ColdConfig:
    return ColdConfig(
        model=ModelConfig(source="file:///tiny", served_name="tiny", dtype=dtype, context_length=context),
        engine=EngineConfig(numerics=numerics, kv_cache_bytes=kv_cache_bytes),
        batching=BatchingConfig(max_batch_size=slots),
    )


def load(directory: Path, **changes: Any) -> TorchRunner:
    return load_runner(directory, cold_config(**changes))


def reference_tokens(model: PreTrainedModel, prompt: Sequence[int], count: int) -> list[int]:
    """What transformers' own generate() answers, greedily."""
    ids = torch.tensor([list(prompt)])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count)
    return out[0, len(prompt) :].tolist()


def random_prompts(seed: int, lengths: Sequence[int]) -> list[list[int]]:
    source = random.Random(seed)
    return [[source.randrange(VOCAB) for _ in range(length)] for length in lengths]


@dataclass
class _Running:
    prompt: list[int]
    count: int
    computed: int
    tokens: list[int] = field(default_factory=list)


@dataclass
class Loop:
    """Greedy continuous batching: admits, prefills in chunks, decodes, releases.

    ``chunk`` is the size of prefill chunks; ``prefills`` how many sequences prefill in one step.
    """

    runner: Runner
    chunk: int = 1000
    prefills: int = 2
    reuse: bool = True
    reused: int = 0
    logits: dict[int, list[torch.Tensor]] = field(default_factory=dict)

    def run(
        self,
        prompts: Sequence[Sequence[int]],
        counts: Sequence[int],
        arrivals: Mapping[int, int] | None = None,
    ) -> list[list[int]]:
        """Generate ``counts[i]`` tokens after ``prompts[i]``; it may join from step ``arrivals[i]`` on."""
        arrivals = arrivals or {}
        waiting = sorted(range(len(prompts)), key=lambda i: (arrivals.get(i, 0), i))
        running: dict[int, _Running] = {}
        done: dict[int, list[int]] = {}
        step = 0
        while waiting or running:
            while waiting and arrivals.get(waiting[0], 0) <= step:
                index = waiting[0]
                prompt = list(prompts[index])
                start = self.runner.admit(index, prompt, len(prompt) + counts[index], reuse=self.reuse)
                if start is None:
                    break
                self.reused += start
                running[index] = _Running(prompt, counts[index], start)
                waiting.pop(0)
            self._step(running)
            for index in [i for i, r in running.items() if len(r.tokens) == r.count]:
                finished = running.pop(index)
                done[index] = finished.tokens
                self.runner.release(index, tokens=(finished.prompt + finished.tokens)[:-1])
            step += 1
        return [done[i] for i in range(len(prompts))]

    def _step(self, running: dict[int, _Running]) -> None:
        decode, prefill = [], []
        for index, row in running.items():
            if row.tokens:
                decode.append(Row(index, (row.tokens[-1],), len(row.prompt) + len(row.tokens) - 1))
            elif len(prefill) < self.prefills:
                if self.reuse:
                    row.computed = self.runner.adopt(index)
                end = min(len(row.prompt), row.computed + self.chunk)
                want = Want.LAST if end == len(row.prompt) else Want.NONE
                prefill.append(Row(index, tuple(row.prompt[row.computed : end]), row.computed, want))
                row.computed = end
        for index, logits in self.runner.step(decode, prefill).items():
            self.logits.setdefault(index, []).append(logits[-1].clone())
            running[index].tokens.append(int(logits[-1].argmax()))
