"""What of a manifest `ferry run` does on one machine, and what only a cluster can.

The same manifest works in both places. A field that has no meaning here is named, so that nobody
believes in it; one without which nothing can be served is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ferry_api.problems import Problem
from ferry_api.resource import InferenceService
from ferry_api.spec import InferenceServiceSpec


@dataclass(frozen=True)
class LocalNote:
    """``path`` is in the manifest and does nothing here; ``message`` says what holds instead."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path} {self.message}"


_POD: Final = "shapes pods on a cluster; nothing to do here"

# In the order of the manifest. A note is given for a field that was written and is not empty.
_CLUSTER_ONLY: Final[tuple[tuple[str, Callable[[InferenceServiceSpec], object], str], ...]] = (
    (
        "spec.model.secretRef",
        lambda s: s.model.secret_ref,
        "names a Secret: set HF_TOKEN in the environment here",
    ),
    (
        "spec.model.storage",
        lambda s: s.model.storage,
        "is a volume: weights are kept in the cache folder here",
    ),
    ("spec.engine.image", lambda s: s.engine.image, "is not used: the installed Ferry serves here"),
    ("spec.engine.args", lambda s: s.engine.args, "are for the container: give them to ferry run"),
    ("spec.engine.env", lambda s: s.engine.env, "is for the container: set the variables before ferry run"),
    (
        "spec.engine.upstream.secretRef",
        lambda s: s.engine.upstream and s.engine.upstream.secret_ref,
        "names a Secret: put the key in a file and name it in FERRY_UPSTREAM_API_KEY_FILE here",
    ),
    (
        "spec.cache.redis.managed",
        lambda s: s.cache.redis.managed,
        "is a Redis that the operator runs: an embedded store is used here",
    ),
    (
        "spec.cache.redis.external",
        lambda s: s.cache.redis.external,
        "names a Secret: set REDIS_URL to use that Redis here; an embedded store is used otherwise",
    ),
    ("spec.replicas", lambda s: s.replicas != 1, "is not used: one process serves here"),
    ("spec.scaling", lambda s: s.scaling, "is not used: one process serves here"),
    ("spec.suspend", lambda s: s.suspend, "is not used: ferry run serves until it is stopped"),
    ("spec.resources", lambda s: s.resources.requests or s.resources.limits or s.resources.claims, _POD),
    ("spec.resourceClaims", lambda s: s.resource_claims, _POD),
    ("spec.nodeSelector", lambda s: s.node_selector, _POD),
    ("spec.tolerations", lambda s: s.tolerations, _POD),
    ("spec.affinity", lambda s: s.affinity, _POD),
    ("spec.topologySpreadConstraints", lambda s: s.topology_spread_constraints, _POD),
    ("spec.priorityClassName", lambda s: s.priority_class_name, _POD),
    ("spec.runtimeClassName", lambda s: s.runtime_class_name, _POD),
    ("spec.imagePullSecrets", lambda s: s.image_pull_secrets, _POD),
    ("spec.serviceAccountName", lambda s: s.service_account_name, _POD),
    ("spec.podTemplate", lambda s: s.pod_template, _POD),
    (
        "spec.auth.apiKeysSecretRef",
        lambda s: s.auth.api_keys_secret_ref,
        "names a Secret: without FERRY_API_KEYS_DIR no keys are asked for, and only this machine may connect",
    ),
    ("spec.network.ingress", lambda s: s.network.ingress, "is for a cluster; nothing to do here"),
    ("spec.network.httpRoute", lambda s: s.network.http_route, "is for a cluster; nothing to do here"),
)


def local_notes(service: InferenceService) -> list[LocalNote]:
    """Fields of the manifest that do nothing under `ferry run`, each with what holds instead."""
    return [LocalNote(path, message) for path, written, message in _CLUSTER_ONLY if written(service.spec)]


def local_problems(service: InferenceService) -> list[Problem]:
    """Why `ferry run` cannot serve the manifest, however valid it is on a cluster."""
    source = service.spec.model.source
    if source.startswith("pvc://"):
        return [
            Problem(
                "spec.model.source",
                "pvc:// names a volume of a cluster: write file:///PATH for a folder of weights here",
            )
        ]
    return []
