"""Live objects as the API server would return them after a server-side apply."""

from __future__ import annotations

import copy
import json
from typing import Any

from ferry_operator.labels import MANAGER, SERVICE

Manifest = dict[str, Any]
_KEYS = {
    "containers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "ownerReferences": ("uid",),
}


def fields(value: Any, name: str = "") -> Manifest:
    """FieldsV1 of an applied value, as far as the tests need it."""
    if isinstance(value, dict) and value and name not in ("matchLabels", "selector"):
        return {f"f:{key}": fields(item, key) for key, item in value.items()}
    if isinstance(value, list) and name in _KEYS:
        return {
            "k:" + json.dumps({k: item[k] for k in _KEYS[name]}): {".": {}, **fields(item)} for item in value
        }
    return {}


def applied(manifest: Manifest, *, uid: str = "child", version: int = 1, **more: Any) -> Manifest:
    """The object after our apply: ours in managedFields, defaults of the server beside it."""
    live = copy.deepcopy(manifest)
    metadata = {k: v for k, v in live["metadata"].items() if k not in ("name", "namespace")}
    own = {k: v for k, v in live.items() if k not in ("apiVersion", "kind", "metadata")}
    entry = {
        "manager": MANAGER,
        "operation": "Apply",
        "fieldsV1": {"f:metadata": fields(metadata), **fields(own)},
    }
    live["metadata"].update(uid=uid, resourceVersion=str(version), generation=1, managedFields=[entry])
    live.update(more)
    return live


def pod(service: str = "chat", component: str = "runtime", **status: Any) -> Manifest:
    labels = {SERVICE: service, "serving.ferry.dev/component": component, "pod-template-hash": "abc"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{service}-{component}-1",
            "namespace": "team",
            "uid": "pod",
            "resourceVersion": "1",
            "labels": labels,
        },
        "status": status,
    }
