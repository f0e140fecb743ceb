"""From an InferenceService to what a runtime is told."""

from __future__ import annotations

from ferry_api import runtime_config as rc
from ferry_api.resource import InferenceService
from ferry_api.spec.engine import EngineSpec
from ferry_api.values import Duration, Quantity


def to_runtime_config(service: InferenceService) -> rc.RuntimeConfig:
    """The runtime's configuration, cold and hot part. Secrets are not in it: they are mounted."""
    return rc.RuntimeConfig(
        generation=service.metadata.generation or 0, cold=_cold(service), hot=_hot(service)
    )


def _cold(service: InferenceService) -> rc.ColdConfig:
    model, batching = service.spec.model, service.spec.batching
    return rc.ColdConfig(
        model=rc.ModelConfig(
            source=model.source,
            served_name=service.served_name,
            dtype=model.dtype,
            quantization=model.quantization,
            context_length=model.context_length,
        ),
        engine=_engine(service.spec.engine),
        batching=rc.BatchingConfig(
            max_batch_size=batching.max_batch_size,
            max_wait_seconds=batching.max_wait.seconds,
            mode=batching.mode,
            target_time_to_first_token_seconds=_seconds(batching.target_time_to_first_token),
        ),
    )


def _engine(engine: EngineSpec) -> rc.EngineConfig:
    return rc.EngineConfig(
        type=engine.type,
        numerics=engine.numerics,
        kv_cache_bytes=_bytes(engine.kv_cache.memory),
        max_batched_tokens=engine.max_batched_tokens,
        upstream_url=engine.upstream.url if engine.upstream else None,
        upstream_model=engine.upstream.model if engine.upstream else None,
    )


def _hot(service: InferenceService) -> rc.HotConfig:
    generation, queue, cache = service.spec.generation, service.spec.batching.queue, service.spec.cache
    return rc.HotConfig(
        generation=rc.GenerationConfig(
            max_tokens=generation.max_tokens,
            max_tokens_limit=generation.max_tokens_limit,
            temperature=generation.temperature,
        ),
        queue=rc.QueueConfig(
            max_requests=queue.max_requests,
            max_tokens=queue.max_tokens,
            timeout_seconds=queue.timeout.seconds,
        ),
        cache=rc.CacheConfig(
            enabled=cache.enabled,
            similarity_threshold=cache.similarity_threshold,
            verifier=cache.verifier,
            sampled_requests=cache.sampled_requests,
            scope=cache.scope,
            ttl_seconds=cache.ttl.seconds,
            max_entries=cache.max_entries,
        ),
        drain_timeout_seconds=service.spec.drain_timeout.seconds,
    )


def _seconds(duration: Duration | None) -> float | None:
    return duration.seconds if duration is not None else None


def _bytes(quantity: Quantity | None) -> int | None:
    return quantity.bytes if quantity is not None else None
