"""Settings: what the files say, then what the environment says, validated with sentences.

A manifest or configuration file comes first; environment variables override it. MODEL_NAME,
MAX_BATCH_SIZE, BATCH_WAIT_MS, MAX_NEW_TOKENS and REDIS_URL mean what they mean to small FastAPI
servers; everything else is called FERRY_…. An empty variable counts as unset.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ferry_api import pod_layout
from ferry_api.runtime_config import DType, Numerics, RuntimeConfig
from ferry_runtime.errors import ConfigurationError, SecretMissing
from ferry_runtime.store.address import StoreAddress

Environment = Mapping[str, str]

_SECRET_BYTES = 16_384
_PATH_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")


@dataclass(frozen=True, slots=True)
class _Variable:
    """Overrides one field of RuntimeConfig; ``path`` is dotted, in its JSON spelling."""

    path: str
    parse: Callable[[str], Any]
    expects: str


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError
        return value

    return parse


def _number(least: float, most: float = float("inf")) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not least <= value <= most or value == float("inf"):
            raise ValueError
        return value

    return parse


def _milliseconds(text: str) -> float:
    return _number(0, 60_000)(text) / 1000


def _flag(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text.lower()]


def _one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        return next(value for value in values if value.lower() == text.lower())

    return parse


def model_source(name: str) -> str:
    """A source URI as it stands; anything else is a repository of the Hugging Face Hub."""
    return name if "://" in name else f"hf://{name}"


_COUNT = "a whole number of at least 1"
_VARIABLES: Mapping[str, _Variable] = {
    "MODEL_NAME": _Variable("cold.model.source", model_source, "a model"),
    "MAX_BATCH_SIZE": _Variable("cold.batching.maxBatchSize", _whole(1), _COUNT),
    "BATCH_WAIT_MS": _Variable("cold.batching.maxWaitSeconds", _milliseconds, "milliseconds from 0 to 60000"),
    "MAX_NEW_TOKENS": _Variable("hot.generation.maxTokens", _whole(1), _COUNT),
    "FERRY_SERVED_NAME": _Variable("cold.model.servedName", str, "a name"),
    "FERRY_DTYPE": _Variable("cold.model.dtype", _one_of(*DType), f"one of {', '.join(DType)}"),
    "FERRY_CONTEXT_LENGTH": _Variable("cold.model.contextLength", _whole(1), _COUNT),
    "FERRY_NUMERICS": _Variable("cold.engine.numerics", _one_of(*Numerics), f"one of {', '.join(Numerics)}"),
    "FERRY_KV_CACHE_BYTES": _Variable("cold.engine.kvCacheBytes", _whole(1), "a number of bytes"),
    "FERRY_MAX_BATCHED_TOKENS": _Variable("cold.engine.maxBatchedTokens", _whole(1), _COUNT),
    "FERRY_MAX_TOKENS_LIMIT": _Variable("hot.generation.maxTokensLimit", _whole(1), _COUNT),
    "FERRY_TEMPERATURE": _Variable("hot.generation.temperature", _number(0, 2), "a number from 0 to 2"),
    "FERRY_QUEUE_MAX_REQUESTS": _Variable("hot.queue.maxRequests", _whole(1), _COUNT),
    "FERRY_QUEUE_MAX_TOKENS": _Variable("hot.queue.maxTokens", _whole(1), _COUNT),
    "FERRY_QUEUE_TIMEOUT_SECONDS": _Variable("hot.queue.timeoutSeconds", _number(0.001), "seconds above 0"),
    "FERRY_CACHE_ENABLED": _Variable("hot.cache.enabled", _flag, "true or false"),
    "FERRY_SIMILARITY_THRESHOLD": _Variable(
        "hot.cache.similarityThreshold", _number(0, 1), "a number from 0 to 1"
    ),
    "FERRY_CACHE_TTL_SECONDS": _Variable("hot.cache.ttlSeconds", _number(0.001), "seconds above 0"),
    "FERRY_CACHE_MAX_ENTRIES": _Variable("hot.cache.maxEntries", _whole(1), _COUNT),
    "FERRY_DRAIN_TIMEOUT_SECONDS": _Variable("hot.drainTimeoutSeconds", _number(0), "seconds"),
}

# Read where they are used rather than through RuntimeConfig.
_OTHER_VARIABLES = frozenset(
    {
        "FERRY_CACHE_DIR",
        "FERRY_EMBEDDER_DIR",
        "FERRY_LOG_FORMAT",
        "FERRY_LOG_LEVEL",
        "FERRY_COMMIT",
        "FERRY_PATH_PREFIX",
        pod_layout.ENV_API_KEYS_DIR,
        pod_layout.ENV_ADMIN_KEYS_DIR,
        pod_layout.ENV_UPSTREAM_KEY_FILE,
        "FERRY_UPSTREAM_API_KEY",
        pod_layout.ENV_REDIS_PASSWORD_FILE,
        pod_layout.ENV_REDIS_URL_FILE,
        pod_layout.ENV_REDIS_CA_FILE,
        pod_layout.ENV_SERVICE,
    }
)
# Kubernetes announces a Service called ferry-… to its neighbours in variables of these shapes.
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)|_PORT$|_PORT_\d+_(TCP|UDP)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Read once, at start; never shown."""

    hub_token: str | None = field(default=None, repr=False)
    upstream_key: str | None = field(default=None, repr=False)
    api_keys_dir: Path | None = None
    admin_keys_dir: Path | None = None


def apply_environment(config: RuntimeConfig, environment: Environment) -> RuntimeConfig:
    """``config`` with the environment's overrides. Raises ConfigurationError, naming the variable."""
    return RuntimeConfig.model_validate(overridden(config.model_dump(by_alias=True), environment))


def overridden(document: dict[str, Any], environment: Environment) -> dict[str, Any]:
    """A RuntimeConfig document with overrides put in; also builds one from nothing but variables."""
    for name, variable in _VARIABLES.items():
        text = environment.get(name, "").strip()
        if not text:
            continue
        try:
            value = variable.parse(text)
        except (ValueError, KeyError, StopIteration):
            raise ConfigurationError(
                f"{name}={text!r} is not valid: it must be {variable.expects}."
            ) from None
        place = document
        *parents, last = variable.path.split(".")
        for part in parents:
            place = place.setdefault(part, {})
        place[last] = value
    return document


def config_from_environment(environment: Environment) -> RuntimeConfig:
    """A configuration without any file: MODEL_NAME at least. Raises ConfigurationError."""
    name = environment.get("MODEL_NAME", "").strip()
    if not name:
        raise ConfigurationError(
            "There is nothing to serve: name a configuration with --config, or set MODEL_NAME."
        )
    served = name.partition("://")[2] or name
    document: dict[str, Any] = {
        "cold": {"model": {"servedName": served.partition("@")[0]}},
        "hot": {"cache": {"enabled": True}},  # as in a manifest that does not mention it
    }
    return RuntimeConfig.model_validate(overridden(document, environment))


def path_prefix(environment: Environment) -> str:
    """FERRY_PATH_PREFIX: what a proxy in front leaves before our paths, without a slash at its end.

    Raises ConfigurationError for what no path begins with.
    """
    text = environment.get("FERRY_PATH_PREFIX", "").strip().rstrip("/")
    if text and not _PATH_PREFIX.fullmatch(text):
        raise ConfigurationError(
            "FERRY_PATH_PREFIX must be a path such as /team-a/smollm2: letters, digits, - . _ ~ and /."
        )
    return text


def unknown_variables(environment: Environment) -> list[str]:
    """A sentence for each FERRY_ variable that nothing reads: most likely a slip of the pen."""
    known = sorted(_OTHER_VARIABLES | _VARIABLES.keys())
    sentences = []
    for name in sorted(environment):
        if not name.startswith("FERRY_") or name in known or _SERVICE_LINK.search(name):
            continue
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        sentences.append(f"The environment variable {name} is not one that Ferry reads.{hint}")
    return sentences


def read_secrets(environment: Environment) -> Secrets:
    """Raises ConfigurationError that names the file or variable, never its value."""

    def folder(name: str) -> Path | None:
        value = environment.get(name, "").strip()
        return Path(value) if value else None

    upstream_file = folder(pod_layout.ENV_UPSTREAM_KEY_FILE)
    hub_file = folder(pod_layout.ENV_HUB_TOKEN_PATH)
    return Secrets(
        hub_token=environment.get("HF_TOKEN", "").strip()
        or (read_secret(hub_file) if hub_file and hub_file.is_file() else None),
        upstream_key=read_secret(upstream_file)
        if upstream_file
        else environment.get("FERRY_UPSTREAM_API_KEY", "").strip() or None,
        api_keys_dir=folder(pod_layout.ENV_API_KEYS_DIR),
        admin_keys_dir=folder(pod_layout.ENV_ADMIN_KEYS_DIR),
    )


def read_secret(path: Path) -> str:
    """A mounted secret's text: ends trimmed, as `echo KEY | kubectl create secret` leaves them."""
    try:
        text = path.read_bytes()[:_SECRET_BYTES].decode("utf-8-sig").strip()
    except OSError:
        raise SecretMissing(f"The secret file {path} cannot be read.") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"The secret file {path} is not UTF-8 text.") from None
    if not text:
        raise SecretMissing(f"The secret file {path} is empty.")
    if len(text.splitlines()) > 1:
        raise ConfigurationError(f"The secret file {path} must hold one line.")
    return text


def store_address(environment: Environment) -> StoreAddress | None:
    """REDIS_URL or a file of one, with password and CA passed apart, as they are.

    Raises SecretMissing while a mounted file is not there, ConfigurationError for a wrong address.
    """
    url_file = environment.get(pod_layout.ENV_REDIS_URL_FILE, "").strip()
    url = read_secret(Path(url_file)) if url_file else environment.get(pod_layout.ENV_REDIS_URL, "").strip()
    if not url:
        return None
    password_file = environment.get(pod_layout.ENV_REDIS_PASSWORD_FILE, "").strip()
    return StoreAddress.parse(
        url,
        password=read_secret(Path(password_file)) if password_file else None,
        ca_file=environment.get(pod_layout.ENV_REDIS_CA_FILE, "").strip() or None,
    )
