"""Strategic merge of a part of a pod template over another, as `kubectl patch` does it.

Maps merge by key; lists whose entries have an identity merge by it, with new entries at the end; other lists
are replaced. Nothing can be removed, only changed. What has another shape than Kubernetes' is passed on as it
is: the API server says what is wrong with it.
Keys: https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/#podspec-v1-core (patchMergeKey).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}


def merged(base: Any, patch: Any, field: str = "") -> Any:
    """A new value; neither argument is changed."""
    if isinstance(base, Mapping) and isinstance(patch, Mapping):
        return {**base, **{key: merged(base.get(key), value, key) for key, value in patch.items()}}
    if isinstance(base, list) and isinstance(patch, list) and field in _MERGE_KEYS:
        return _merged_list(base, patch, _MERGE_KEYS[field])
    return patch


def _merged_list(base: Sequence[Any], patch: Sequence[Any], key: str) -> list[Any]:
    if not all(isinstance(item, Mapping) and isinstance(item.get(key), str | int) for item in patch):
        return list(patch)
    changes = {item.get(key): item for item in patch}
    result = [merged(item, changes.pop(item.get(key), {})) for item in base]
    return [*result, *changes.values()]
