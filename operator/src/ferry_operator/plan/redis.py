"""The managed Redis: one replica that may be lost, since every entry can be computed again."""

from __future__ import annotations

from decimal import Decimal

from ferry_api.spec.cache import ManagedRedis
from ferry_operator import labels
from ferry_operator.kinds import DEPLOYMENT, NETWORK_POLICY, SECRET, SERVICE, VOLUME_CLAIM
from ferry_operator.labels import Component
from ferry_operator.plan import names, security
from ferry_operator.plan.inputs import Inputs
from ferry_operator.plan.model import Generated, Manifest, Planned, Policy

_PORT = 6379
_PASSWORD_FOLDER = "/etc/redis-secret"  # noqa: S105  (a path)
_READ_PASSWORD = f'"$(cat {_PASSWORD_FOLDER}/password)"'  # $(…) trims a newline at the end
_SHARE = Decimal("0.6")  # of the memory limit: the rest is for copies on write and buffers
_UNLIMITED = 128 * 1024**2  # bytes, where the user took the memory limit away


def build(inputs: Inputs) -> tuple[Planned, ...]:
    """Everything around the managed Redis; nothing where it is the user's.

    The password stays while the cache is switched off: pods are stamped with it, and must not roll then.
    So does the volume: a switch must not delete what a user asked to be kept.
    """
    cache = inputs.resource.spec.cache
    if cache.redis.external is not None:
        return ()
    managed = cache.redis.managed or ManagedRedis()
    secret = inputs.manifest(SECRET, names.redis(inputs.name), Component.REDIS)
    password = Planned({**secret, "type": "Opaque"}, Policy.CREATE_ONCE, Generated.REDIS_PASSWORD)
    claim = () if managed.storage is None else (Planned(_claim(inputs, managed)),)
    if not cache.enabled:
        return (password, *claim)
    found = [password, *claim, Planned(_service(inputs)), Planned(_deployment(inputs, managed))]
    if inputs.resource.spec.network.network_policy.enabled:
        found.append(Planned(_network_policy(inputs)))
    return tuple(found)


def max_memory(managed: ManagedRedis) -> int:
    """Bytes that Redis may fill with entries."""
    if managed.max_memory is not None:
        return int(managed.max_memory.value)
    limit = managed.resources.limits.get("memory")
    return _UNLIMITED if limit is None else int(limit.value * _SHARE)


def _deployment(inputs: Inputs, managed: ManagedRedis) -> Manifest:
    image, chosen_here = _image(inputs, managed)
    manifest = inputs.manifest(DEPLOYMENT, names.redis(inputs.name), Component.REDIS)
    if chosen_here:
        manifest["metadata"]["annotations"] = {labels.DEFAULT_IMAGE: image}
    metadata: Manifest = {"labels": labels.labels(inputs.name, Component.REDIS)}
    if inputs.redis_auth is not None:
        metadata["annotations"] = {labels.REDIS_AUTH: inputs.redis_auth}
    manifest["spec"] = {
        "replicas": 0 if inputs.resource.spec.suspend else 1,
        "revisionHistoryLimit": 1,
        "selector": {"matchLabels": labels.selector(inputs.name, Component.REDIS)},
        "strategy": {"type": "Recreate"},
        "template": {"metadata": metadata, "spec": _pod(inputs, managed, image)},
    }
    return manifest


def _image(inputs: Inputs, managed: ManagedRedis) -> tuple[str, bool]:
    """The image, and whether the operator chose it: an upgrade alone does not empty the cache."""
    if managed.image is not None:
        return managed.image, False
    in_use = inputs.redis_in_use
    kept = in_use.default_image if in_use and not inputs.defaults.immediate_rollout else None
    return kept or inputs.defaults.redis_image, True


def _pod(inputs: Inputs, managed: ManagedRedis, image: str) -> Manifest:
    data: Manifest = {"emptyDir": {}}
    if managed.storage is not None:
        data = {"persistentVolumeClaim": {"claimName": names.redis(inputs.name)}}
    password = {"secretName": names.redis(inputs.name), "defaultMode": 0o440}
    pod: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": security.pod(),
        "containers": [_container(managed, image)],
        "volumes": [
            {"name": "password", "secret": {**password, "items": [{"key": "password", "path": "password"}]}},
            {"name": "data", **data},
        ],
    }
    pull = [{"name": secret.name} for secret in inputs.resource.spec.image_pull_secrets]
    return {**pod, "imagePullSecrets": pull} if pull else pod


def _container(managed: ManagedRedis, image: str) -> Manifest:
    save = "900 1 300 100" if managed.storage is not None else ""
    server = (
        f"exec redis-server --port {_PORT} --protected-mode no --requirepass {_READ_PASSWORD} "
        f"--maxmemory {max_memory(managed)} --maxmemory-policy volatile-lfu --dir /data --save '{save}'"
    )
    container: Manifest = {
        "name": Component.REDIS.value,
        "image": image,
        "command": ["sh", "-c", server],
        "ports": [{"name": "redis", "containerPort": _PORT, "protocol": "TCP"}],
        "readinessProbe": {**_ping(seconds=2, answer="PONG"), "periodSeconds": 5},
        # Any answer will do, also that it loads its data; the kernel takes connections for a process that
        # hangs, so a connection is none.
        "livenessProbe": {**_ping(seconds=4, answer="."), "periodSeconds": 10, "failureThreshold": 6},
        "securityContext": security.container(),
        "volumeMounts": [
            {"name": "password", "mountPath": _PASSWORD_FOLDER, "readOnly": True},
            {"name": "data", "mountPath": "/data"},
        ],
    }
    resources = managed.resources.model_dump(mode="json", by_alias=True, exclude_none=True)
    resources = {kind: value for kind, value in resources.items() if value}
    return {**container, "resources": resources} if resources else container


def _ping(seconds: int, answer: str) -> Manifest:
    """A probe whose answer matches the expression. The client's time ends inside the container: when the
    kubelet's does, a container runtime ends the shell and waits for what the shell started, and a Redis
    that hangs would never be told from one that answers."""
    client = f"timeout {seconds} redis-cli -p {_PORT} ping"
    command = ["sh", "-c", f"REDISCLI_AUTH={_READ_PASSWORD} {client} | grep -q {answer}"]
    return {"exec": {"command": command}, "timeoutSeconds": seconds + 1}


def _service(inputs: Inputs) -> Manifest:
    manifest = inputs.manifest(SERVICE, names.redis(inputs.name), Component.REDIS)
    manifest["spec"] = {
        "selector": labels.selector(inputs.name, Component.REDIS),
        "ports": [{"name": "redis", "port": _PORT, "targetPort": "redis", "protocol": "TCP"}],
    }
    return manifest


def _claim(inputs: Inputs, managed: ManagedRedis) -> Manifest:
    assert managed.storage is not None  # noqa: S101  (build asks)
    manifest = inputs.manifest(VOLUME_CLAIM, names.redis(inputs.name), Component.REDIS)
    manifest["spec"] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {
            "requests": {"storage": inputs.claim_size(names.redis(inputs.name), managed.storage.size)}
        },
    }
    if managed.storage.class_ is not None:
        manifest["spec"]["storageClassName"] = managed.storage.class_
    return manifest


def _network_policy(inputs: Inputs) -> Manifest:
    manifest = inputs.manifest(NETWORK_POLICY, names.redis(inputs.name), Component.REDIS)
    runtime = {"podSelector": {"matchLabels": labels.selector(inputs.name, Component.RUNTIME)}}
    manifest["spec"] = {
        "podSelector": {"matchLabels": labels.selector(inputs.name, Component.REDIS)},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [runtime], "ports": [{"port": _PORT, "protocol": "TCP"}]}],
    }
    return manifest
