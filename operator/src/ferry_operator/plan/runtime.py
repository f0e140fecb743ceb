"""The Deployment of the runtime: pods that load the weights and serve.

Everything in the pod template costs a reload of the weights when it changes, so only what has to be there is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ferry_api import pod_layout as layout
from ferry_api.schema import SpecModel
from ferry_api.spec import InferenceServiceSpec, UpdateStrategy
from ferry_operator import labels
from ferry_operator.kinds import DEPLOYMENT
from ferry_operator.labels import Component
from ferry_operator.plan import names, security
from ferry_operator.plan.inputs import Inputs
from ferry_operator.plan.merge import merged
from ferry_operator.plan.model import Manifest, Planned
from ferry_operator.plan.volumes import Mount, mounts

_STARTUP_SECONDS = 3600  # fetching and loading the largest weights
_STARTUP_PERIOD = 5
_PROGRESS_SECONDS = _STARTUP_SECONDS + 600  # and pulling the image
_REVISIONS = 2  # old ReplicaSets that are kept, each with its cold configuration


def build(inputs: Inputs, cold_config: str) -> Planned:
    """The Deployment `<name>-runtime` for one cold configuration."""
    spec = inputs.resource.spec
    used = mounts(inputs.resource, cold_config)
    image, chosen_here = _image(inputs, cold_config)
    template = _laid_over(_template(inputs, used, image), spec)
    manifest = inputs.manifest(DEPLOYMENT, names.runtime(inputs.name), Component.RUNTIME)
    if chosen_here:
        manifest["metadata"]["annotations"] = {labels.DEFAULT_IMAGE: image}
    manifest["spec"] = {
        "replicas": 0 if spec.suspend else spec.replicas,
        "revisionHistoryLimit": _REVISIONS,
        "progressDeadlineSeconds": _PROGRESS_SECONDS,
        "selector": {"matchLabels": labels.selector(inputs.name, Component.RUNTIME)},
        "strategy": strategy(spec.update_strategy, template, used),
        "template": template,
    }
    return Planned(manifest)


def _image(inputs: Inputs, cold_config: str) -> tuple[str, bool]:
    """The image, and whether the operator chose it."""
    if inputs.resource.spec.engine.image is not None:
        return inputs.resource.spec.engine.image, False
    in_use = inputs.runtime_in_use
    keeps = (
        in_use is not None
        and in_use.default_image is not None
        and in_use.config == cold_config
        and not inputs.defaults.immediate_rollout
    )
    return (in_use.default_image if keeps and in_use else None) or inputs.defaults.runtime_image, True


def strategy(wanted: UpdateStrategy, template: Manifest, used: Sequence[Mount]) -> Manifest:
    """How pods are replaced. A surge needs room for one pod more, which devices and claims may not leave."""
    if wanted == UpdateStrategy.RECREATE:
        return {"type": "Recreate"}
    surge = wanted == UpdateStrategy.ROLLING_UPDATE or not _scarce(template, used)
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1 if surge else 0, "maxUnavailable": 0 if surge else 1},
    }


def _scarce(template: Manifest, used: Sequence[Mount]) -> bool:
    pod = template["spec"]
    planned = {mount.name for mount in used}
    return (
        any(mount.exclusive for mount in used)
        or bool(pod.get("resourceClaims"))
        or any(_asks_for_devices(c) for c in (*pod["containers"], *pod.get("initContainers", ())))
        or any(v["name"] not in planned and "persistentVolumeClaim" in v for v in pod["volumes"])
    )


def _asks_for_devices(container: Manifest) -> bool:
    """Whether a container asks for an extended resource: any name with a domain, such as nvidia.com/gpu."""
    resources = container.get("resources")
    if not isinstance(resources, Mapping):
        return False  # the API server says what is wrong with a user's template
    return any("/" in str(name) for kind in ("limits", "requests") for name in resources.get(kind) or ())


def _template(inputs: Inputs, used: Sequence[Mount], image: str) -> Manifest:
    metadata: Manifest = {"labels": labels.labels(inputs.name, Component.RUNTIME)}
    spec = inputs.resource.spec
    pod: Manifest = {
        "serviceAccountName": spec.service_account_name or names.runtime(inputs.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": layout.DRAIN_DELAY_SECONDS
        + math.ceil(spec.drain_timeout.seconds)
        + 5,
        "securityContext": security.pod(),
        "containers": [_container(inputs, used, image)],
        "volumes": [mount.volume for mount in used],
    }
    pod.update(_placement(inputs.name, spec))
    return {"metadata": metadata, "spec": pod}


def _container(inputs: Inputs, used: Sequence[Mount], image: str) -> Manifest:
    spec = inputs.resource.spec
    container: Manifest = {
        "name": Component.RUNTIME.value,
        "image": image,
        # No command: the image's own entry point puts a first process before `ferry` that takes in orphans.
        "args": ["serve", "--config", layout.CONFIG_FOLDER, *spec.engine.args],
        "env": _environment(inputs, used),
        "ports": [{"name": "http", "containerPort": layout.HTTP_PORT, "protocol": "TCP"}],
        "lifecycle": {"preStop": {"exec": {"command": ["ferry", "drain"]}}},
        "startupProbe": _probe("/readyz", _STARTUP_PERIOD, _STARTUP_SECONDS // _STARTUP_PERIOD),
        "readinessProbe": _probe("/readyz", 5, 2),
        "livenessProbe": _probe("/livez", 10, 6),
        "securityContext": security.container(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount.volume_mount for mount in used],
    }
    resources = _plain(spec.resources)
    if resources:
        container["resources"] = resources
    return container


def _environment(inputs: Inputs, used: Sequence[Mount]) -> list[Manifest]:
    own = [{"name": mount.variable[0], "value": mount.variable[1]} for mount in used if mount.variable]
    if inputs.resource.spec.cache.redis.external is None:
        host = f"{names.redis(inputs.name)}.{inputs.resource.metadata.namespace}.svc"
        own.append({"name": layout.ENV_REDIS_URL, "value": f"redis://{host}:6379/0"})
    else:
        service = f"{inputs.resource.metadata.namespace}/{inputs.name}"
        own.append({"name": layout.ENV_SERVICE, "value": service})
    return own + [_plain(variable) for variable in inputs.resource.spec.engine.env]


def _probe(path: str, period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _placement(name: str, spec: InferenceServiceSpec) -> Manifest:
    """The pod fields that are the user's, as far as they are given."""
    spread = [_plain(constraint) for constraint in spec.topology_spread_constraints]
    for constraint in spread:
        own = {"matchLabels": labels.selector(name, Component.RUNTIME)}
        constraint.setdefault("labelSelector", own)
    given: Manifest = {
        "resourceClaims": [_plain(claim) for claim in spec.resource_claims],
        "nodeSelector": dict(spec.node_selector),
        "tolerations": [_plain(toleration) for toleration in spec.tolerations],
        "affinity": spec.affinity,
        "topologySpreadConstraints": spread,
        "priorityClassName": spec.priority_class_name,
        "runtimeClassName": spec.runtime_class_name,
        "imagePullSecrets": [_plain(secret) for secret in spec.image_pull_secrets],
    }
    return {key: value for key, value in given.items() if value}


def _laid_over(template: Manifest, spec: InferenceServiceSpec) -> Manifest:
    if spec.pod_template is None:
        return template
    parts = (("metadata", spec.pod_template.metadata), ("spec", spec.pod_template.spec))
    given = {key: _plain(part) for key, part in parts if part is not None}
    result: Manifest = merged(template, given)
    return result


def _plain(model: SpecModel) -> dict[str, Any]:
    """A part of the spec as Kubernetes spells it, without what was left out or is empty."""
    dumped = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in dumped.items() if not _empty(value)}


def _empty(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple | str) and len(value) == 0
