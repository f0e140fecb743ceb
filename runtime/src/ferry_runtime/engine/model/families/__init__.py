"""The model families that are served: each turns a config.json into a `DecoderSpec`.

A family is listed only once its tests show that tokens equal transformers' own generate().
"""

from __future__ import annotations

from collections.abc import Callable

from ferry_runtime.engine.model.config import RawConfig
from ferry_runtime.engine.model.families import gemma, gpt2, gpt_neo, gpt_neox, llama, opt
from ferry_runtime.engine.model.spec import DecoderSpec
from ferry_runtime.errors import EngineLoadError

FAMILIES: dict[str, Callable[[RawConfig], DecoderSpec]] = {
    "gemma2": gemma.gemma2,
    "gemma3_text": gemma.gemma3,
    "gpt2": gpt2.describe,
    "gpt_neo": gpt_neo.describe,
    "gpt_neox": gpt_neox.describe,
    "llama": llama.llama,
    "mistral": llama.mistral,
    "opt": opt.describe,
    "qwen2": llama.qwen2,
    "qwen3": llama.qwen3,
}


def describe(config: RawConfig) -> DecoderSpec:
    """Raises EngineLoadError, with a sentence, for what cannot be served exactly."""
    family = FAMILIES.get(config.model_type)
    if family is None:
        raise EngineLoadError(
            f"Models of type {config.model_type or 'unknown'!r} cannot be served by the Transformers engine; "
            f"it serves {', '.join(sorted(FAMILIES))}. Use engine.type VLLM or OpenAICompatible for others."
        )
    if config.raw("quantization_config") is not None:
        raise EngineLoadError(
            "The checkpoint is quantized (config.json has quantization_config). Give one with Float32, "
            "BFloat16 or Float16 weights."
        )
    spec = family(config)
    if spec.heads % spec.kv_heads:
        raise EngineLoadError(
            f"config.json: {spec.heads} attention heads cannot share {spec.kv_heads} key-value heads."
        )
    return spec
