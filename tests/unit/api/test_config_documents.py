from __future__ import annotations

import json

import pytest
import yaml

from ferry_api import runtime_config as rc
from ferry_api.config_documents import (
    cold_document,
    cold_hash,
    dump_config,
    from_documents,
    hot_document,
    load_config,
)
from ferry_api.problems import ManifestError

SMALL = rc.RuntimeConfig(cold=rc.ColdConfig(model=rc.ModelConfig(source="package://a", served_name="a")))
LARGE = rc.RuntimeConfig(
    generation=3,
    cold=rc.ColdConfig(
        model=rc.ModelConfig(
            source="hf://a/b", served_name="ä/b", dtype=rc.DType.FLOAT16, context_length=2048
        ),
        engine=rc.EngineConfig(numerics=rc.Numerics.DETERMINISTIC, kv_cache_bytes=1 << 30),
        batching=rc.BatchingConfig(max_batch_size=16, max_wait_seconds=0.1),
    ),
    hot=rc.HotConfig(
        generation=rc.GenerationConfig(max_tokens=5),
        cache=rc.CacheConfig(enabled=True, similarity_threshold=0.9),
    ),
)


@pytest.mark.parametrize("config", [SMALL, LARGE], ids=["small", "large"])
def test_documents_bring_back_the_configuration(config):
    assert from_documents(cold_document(config), hot_document(config)) == config
    assert load_config(dump_config(config)) == config


def test_hashes_of_a_release_stay_hashes_of_the_next():
    """A changed value here rolls every pod of every user: it needs a new apiVersion."""
    assert cold_hash(SMALL) == "bc44f27985"
    assert cold_hash(LARGE) == "a567c9e4e7"


def test_defaults_of_an_api_version_never_change():
    """What equals its default is not written, so a changed default would change served settings silently."""
    config = SMALL.model_dump(mode="json", by_alias=True)
    assert config["cold"]["engine"] | config["cold"]["batching"] == {
        "type": "Transformers",
        "numerics": "Fast",
        "kvCacheBytes": None,
        "maxBatchedTokens": None,
        "upstreamUrl": None,
        "upstreamModel": None,
        "maxBatchSize": 8,
        "maxWaitSeconds": 0.05,
        "mode": "Fixed",
        "targetTimeToFirstTokenSeconds": None,
    }
    assert config["cold"]["model"] == {
        "source": "package://a",
        "servedName": "a",
        "dtype": "Auto",
        "quantization": "None",
        "contextLength": None,
    }
    assert config["hot"]["queue"] == {"maxRequests": 256, "maxTokens": 65536, "timeoutSeconds": 60.0}
    assert config["hot"]["drainTimeoutSeconds"] == 30.0


def test_only_cold_settings_change_the_hash():
    warmer = LARGE.model_copy(update={"hot": rc.HotConfig(), "generation": 4})
    assert cold_hash(warmer) == cold_hash(LARGE)
    other = LARGE.cold.model_copy(update={"batching": rc.BatchingConfig(max_batch_size=8)})
    assert cold_hash(LARGE.model_copy(update={"cold": other})) != cold_hash(LARGE)


def test_the_order_of_keys_does_not_change_the_hash():
    shuffled = yaml.safe_load(dump_config(LARGE))
    shuffled["cold"] = dict(
        reversed([(key, dict(reversed(part.items()))) for key, part in shuffled["cold"].items()])
    )
    assert cold_hash(load_config(yaml.safe_dump(shuffled, sort_keys=False))) == cold_hash(LARGE)


def test_a_setting_that_equals_its_default_is_not_written():
    cold = json.loads(cold_document(SMALL))
    assert cold == {
        "apiVersion": "runtime.serving.ferry.dev/v1alpha1",
        "kind": "RuntimeConfig",
        "cold": {"model": {"source": "package://a", "servedName": "a"}},
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("[", "is not valid YAML or JSON", id="syntax"),
        pytest.param("text", "must be a mapping", id="text"),
        pytest.param("kind: RuntimeConfig\n", "cold: Field required", id="nothing in it"),
        pytest.param(
            "{apiVersion: runtime.serving.ferry.dev/v2, cold: {model: {source: a, servedName: a}}}",
            "apiVersion: Input should be 'runtime.serving.ferry.dev/v1alpha1'",
            id="another version",
        ),
        pytest.param(
            "{cold: {model: {source: a, servedName: a, colour: red}}}",
            "cold.model.colour: Extra inputs are not permitted",
            id="unknown setting",
        ),
    ],
)
def test_what_is_no_configuration_is_refused(text, says):
    with pytest.raises(ManifestError, match=says):
        load_config(text)
