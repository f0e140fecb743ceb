"""RuntimeConfig as text: whole in one file, or as the cold and the hot file that a pod mounts.

Values that equal their default are left out, so that a release which adds a field neither changes
the hash of a configuration that does not use it nor the content of an immutable ConfigMap. For the
same reason a default of RuntimeConfig never changes within an apiVersion.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from ferry_api.problems import ManifestError, Problem
from ferry_api.runtime_config import RuntimeConfig


def cold_document(config: RuntimeConfig) -> str:
    """apiVersion, kind and the cold part as canonical JSON: equal settings, equal bytes."""
    return _canonical({**_header(config), "cold": _written(config.cold)})


def hot_document(config: RuntimeConfig) -> str:
    """The hot part with the generation it comes from, as canonical JSON."""
    return _canonical({**_header(config), "generation": config.generation, "hot": _written(config.hot)})


def cold_hash(config: RuntimeConfig) -> str:
    """Ten hex digits that change when, and only when, pods have to be replaced."""
    return hashlib.sha256(cold_document(config).encode()).hexdigest()[:10]


def from_documents(cold: str, hot: str) -> RuntimeConfig:
    """The two files of a pod put together. Raises ManifestError."""
    first, second = _mapping(cold, "the cold part"), _mapping(hot, "the hot part")
    return _validated({**second, **first})


def dump_config(config: RuntimeConfig) -> str:
    """The whole configuration as YAML, defaults written out, for people and for `ferry serve`."""
    text: str = yaml.safe_dump(
        config.model_dump(mode="json", by_alias=True, exclude_none=True), sort_keys=False
    )
    return text


def load_config(text: str) -> RuntimeConfig:
    """The whole configuration from YAML or JSON. Raises ManifestError."""
    return _validated(_mapping(text, "the configuration"))


def _header(config: RuntimeConfig) -> dict[str, str]:
    return {"apiVersion": config.api_version, "kind": config.kind}


def _written(part: BaseModel) -> Any:
    return part.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _canonical(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _mapping(text: str, what: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ManifestError([Problem("", f"{what} is not valid YAML or JSON")]) from None
    if not isinstance(content, dict):
        raise ManifestError([Problem("", f"{what} must be a mapping with apiVersion and kind")])
    return content


def _validated(content: dict[str, Any]) -> RuntimeConfig:
    try:
        return RuntimeConfig.model_validate(content, by_alias=True, by_name=False)
    except ValidationError as error:
        problems = [
            Problem(".".join(str(part) for part in details["loc"]), details["msg"])
            for details in error.errors(include_url=False, include_input=False)
        ]
        raise ManifestError(problems) from None
