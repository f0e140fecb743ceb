"""Which backend serves a configuration: the engine here, or another server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ferry_api.runtime_config import ColdConfig, EngineType
from ferry_runtime.engine.backend import ProcessBackend
from ferry_runtime.engine.protocol import Backend, EngineStats
from ferry_runtime.engine.upstream import UpstreamBackend, UpstreamModel
from ferry_runtime.errors import EngineLoadError
from ferry_runtime.models.prepared import PreparedModel
from ferry_runtime.text.model import TextModel

# Where neither the model's configuration nor the upstream says how much fits.
_CONTEXT_LENGTH = 4096
_SAMPLE = "Hello"


def needs_weights(cold: ColdConfig) -> bool:
    """An upstream has its own; here only the tokenizer and the chat template are read."""
    return cold.engine.type is not EngineType.OPENAI_COMPATIBLE


def make_backend(
    cold: ColdConfig,
    model: PreparedModel,
    text: TextModel,
    *,
    upstream_key: str | None,
    on_progress: Callable[[str, float | None], None],
    on_stats: Callable[[EngineStats], None],
) -> Backend:
    """Raises EngineLoadError for an engine that this release does not have."""
    match cold.engine.type:
        case EngineType.TRANSFORMERS:
            return ProcessBackend(model.path, cold, on_progress=on_progress, on_stats=on_stats)
        case EngineType.OPENAI_COMPATIBLE:
            return UpstreamBackend(_upstream_model(cold, text), key=upstream_key)
        case other:
            raise EngineLoadError(
                f"The engine type {other} is not built in this release: write Transformers."
            )


def _upstream_model(cold: ColdConfig, text: TextModel) -> UpstreamModel:
    if cold.engine.upstream_url is None:
        raise EngineLoadError("The engine type OpenAICompatible needs engine.upstream.url.")
    tokenizer = text.tokenizer
    begin = tokenizer.special_tokens.get("bos_token", "")

    def decode(token_ids: Sequence[int]) -> str:
        # The upstream begins a text with its begin token, as this model's tokenizer did.
        return tokenizer.decode(token_ids, skip_special_tokens=False).removeprefix(begin)

    def token_id(token: str) -> int | None:
        ids = tokenizer.encode(token, add_special_tokens=False)
        return ids[0] if len(ids) == 1 else None

    return UpstreamModel(
        url=cold.engine.upstream_url,
        name=cold.engine.upstream_model or cold.model.served_name,
        family=text.family,
        vocab_size=text.vocab_size,
        context_length=cold.model.context_length or text.context_length or _CONTEXT_LENGTH,
        eos_token_ids=text.eos_token_ids,
        slots=cold.batching.max_batch_size,
        sample=tokenizer.encode(_SAMPLE),
        decode=decode,
        token_id=token_id,
    )
