"""The runtime's configuration as two ConfigMaps: a cold one per content, which rolls pods, and a hot one.

What equals the default is left out of the cold one, so that a release that adds a field changes no digest
and rolls no pod.
"""

from __future__ import annotations

import hashlib
import json

from ferry_api import pod_layout as layout
from ferry_api.runtime_config import RuntimeConfig
from ferry_api.translation import to_runtime_config
from ferry_operator.kinds import CONFIG_MAP
from ferry_operator.labels import Component
from ferry_operator.plan import names
from ferry_operator.plan.inputs import Inputs
from ferry_operator.plan.model import Manifest, Planned

_DIGITS = 10  # 40 bits over the few configurations that one service ever has


def build(inputs: Inputs) -> tuple[Planned, Planned]:
    """The cold ConfigMap, then the hot one."""
    config = to_runtime_config(inputs.resource)
    cold = _cold(config)
    digest = hashlib.sha256(cold.encode()).hexdigest()[:_DIGITS]
    return (
        Planned(
            {**_config_map(inputs, names.cold_config(inputs.name, digest), cold), "immutable": True},
        ),
        Planned(_config_map(inputs, names.runtime(inputs.name), _hot(config))),
    )


def _cold(config: RuntimeConfig) -> str:
    document = {
        "apiVersion": config.api_version,
        "kind": config.kind,
        "cold": config.cold.model_dump(mode="json", by_alias=True, exclude_defaults=True),
    }
    return json.dumps(document, sort_keys=True)


def _hot(config: RuntimeConfig) -> str:
    document = {
        "generation": config.generation,
        "hot": config.hot.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    return json.dumps(document, sort_keys=True)


def _config_map(inputs: Inputs, name: str, content: str) -> Manifest:
    manifest = inputs.manifest(CONFIG_MAP, name, Component.RUNTIME)
    return {**manifest, "data": {layout.CONFIG_FILE: content}}
