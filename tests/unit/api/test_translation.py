from __future__ import annotations

from typing import Any

from ferry_api import runtime_config as rc
from ferry_api.spec import InferenceServiceSpec
from ferry_api.translation import to_runtime_config
from ferry_api.validation import parse


def service(**spec: Any) -> Any:
    return parse(
        {
            "apiVersion": "serving.ferry.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": "sample", "generation": 7},
            "spec": {"model": {"source": "package://a"}, **spec},
        }
    )


def test_the_smallest_manifest_becomes_the_runtimes_defaults():
    config = to_runtime_config(service())
    assert config == rc.RuntimeConfig(
        generation=7,
        cold=rc.ColdConfig(model=rc.ModelConfig(source="package://a", served_name="sample")),
        hot=rc.HotConfig(cache=rc.CacheConfig(enabled=True)),
    )


def test_every_setting_arrives_in_plain_units():
    config = to_runtime_config(
        service(
            model={
                "source": "hf://a/b@main",
                "servedName": "a/b",
                "dtype": "BFloat16",
                "contextLength": 4096,
            },
            engine={
                "numerics": "Deterministic",
                "kvCache": {"memory": "1.5Gi"},
                "maxBatchedTokens": 256,
            },
            generation={"maxTokens": 10, "maxTokensLimit": 20, "temperature": 0.5},
            batching={
                "maxBatchSize": 4,
                "maxWait": "1s50ms",
                "queue": {"maxRequests": 5, "maxTokens": 6, "timeout": "1m30s"},
            },
            cache={
                "enabled": False,
                "similarityThreshold": 0.9,
                "verifier": "None",
                "sampledRequests": "Never",
                "scope": "Shared",
                "ttl": "2h",
                "maxEntries": 8,
            },
            drainTimeout="45s",
        )
    )
    assert config.cold == rc.ColdConfig(
        model=rc.ModelConfig(
            source="hf://a/b@main", served_name="a/b", dtype=rc.DType.BFLOAT16, context_length=4096
        ),
        engine=rc.EngineConfig(
            numerics=rc.Numerics.DETERMINISTIC, kv_cache_bytes=3 << 29, max_batched_tokens=256
        ),
        batching=rc.BatchingConfig(max_batch_size=4, max_wait_seconds=1.05),
    )
    assert config.hot == rc.HotConfig(
        generation=rc.GenerationConfig(max_tokens=10, max_tokens_limit=20, temperature=0.5),
        queue=rc.QueueConfig(max_requests=5, max_tokens=6, timeout_seconds=90),
        cache=rc.CacheConfig(
            enabled=False,
            similarity_threshold=0.9,
            verifier=rc.Verifier.NONE,
            sampled_requests=rc.SampledRequests.NEVER,
            scope=rc.CacheScope.SHARED,
            ttl_seconds=7200,
            max_entries=8,
        ),
        drain_timeout_seconds=45,
    )


def test_an_upstream_arrives_without_its_secret():
    config = to_runtime_config(
        service(
            engine={
                "type": "OpenAICompatible",
                "upstream": {"url": "http://v:8000/v1", "model": "m", "secretRef": {"name": "key"}},
            }
        )
    )
    assert config.cold.engine == rc.EngineConfig(
        type=rc.EngineType.OPENAI_COMPATIBLE, upstream_url="http://v:8000/v1", upstream_model="m"
    )
    assert "secret" not in config.model_dump_json().lower()


def test_adaptive_batching_is_translated_with_its_target():
    spec = InferenceServiceSpec.model_validate(
        {
            "model": {"source": "package://a"},
            "batching": {"mode": "Adaptive", "targetTimeToFirstToken": "500ms"},
        }
    )
    config = to_runtime_config(service().model_copy(update={"spec": spec}))
    assert config.cold.batching.mode is rc.BatchingMode.ADAPTIVE
    assert config.cold.batching.target_time_to_first_token_seconds == 0.5
