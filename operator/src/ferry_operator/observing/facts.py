"""The few facts about a child that status and decisions need, taken from a watch event's whole object."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ferry_api.values import Quantity
from ferry_operator import labels
from ferry_operator.kinds import DEPLOYMENT, INFERENCE_SERVICE, POD, REPLICA_SET, SECRET, VOLUME_CLAIM, Kind
from ferry_operator.observing.ownership import live_digest
from ferry_operator.observing.pods import Trouble, trouble

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeploymentFacts:
    """A Deployment's progress, in its own terms."""

    generation: int
    observed_generation: int
    wanted: int
    replicas: int
    updated: int
    ready: int
    deadline_exceeded: bool
    image: str
    """Of the container named like the component."""
    default_image: str | None
    """The image that the operator chose; None if the user did."""
    config: str | None
    """Name of the cold ConfigMap that the template mounts."""
    failure: str | None
    """Why pods cannot even be created, such as an exceeded quota."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod of a component."""

    component: str
    revision: str
    """The pod-template-hash: pods of one ReplicaSet share it."""
    ready: bool
    trouble: Trouble | None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicaSetFacts:
    """Which cold ConfigMap a revision needs."""

    configs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SecretFacts:
    """A fingerprint of a generated Secret: tells two contents apart, and is too short to tell more."""

    fingerprint: str


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """Whether a volume claim has its volume, and the size that it asks for: grown by hand, perhaps."""

    phase: str
    size: Quantity | None = None


Facts = DeploymentFacts | PodFacts | ReplicaSetFacts | SecretFacts | ClaimFacts | None


@dataclass(frozen=True, slots=True)
class Observed:
    """One live object with our label."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    version: int
    """The resourceVersion: later states of one object have larger ones."""
    service: str
    """Name of the InferenceService that it belongs to."""
    owner: str | None
    """Uid of the InferenceService that is its controller."""
    deleting: bool
    digest: bytes | None
    facts: Facts


def observe(kind: Kind, live: Manifest) -> Observed | None:
    """What there is to know about a live object; None if neither owner nor label names its service.

    The owner's word counts: a label that somebody edits must not move an object out of its owner's sight.
    """
    metadata = live["metadata"]
    holder = _controller(live)
    service = holder.get("name") or metadata.get("labels", {}).get(labels.SERVICE)
    if service is None:
        return None
    return Observed(
        kind=kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        service=service,
        owner=holder.get("uid"),
        deleting="deletionTimestamp" in metadata,
        digest=None if kind in {POD, REPLICA_SET} else live_digest(live),
        facts=_facts(kind, live),
    )


def controller(live: Manifest) -> str | None:
    """Uid of the InferenceService that is an object's controller, if one is."""
    return _controller(live).get("uid")


def _controller(live: Manifest) -> Mapping[str, str]:
    """The reference to it, empty without one."""
    for reference in live["metadata"].get("ownerReferences", ()):
        if (
            reference.get("controller")
            and reference["kind"] == INFERENCE_SERVICE.kind
            and reference["apiVersion"].startswith(f"{INFERENCE_SERVICE.group}/")
        ):
            found: Mapping[str, str] = reference
            return found
    return {}


def _facts(kind: Kind, live: Manifest) -> Facts:
    if kind == DEPLOYMENT:
        return _deployment(live)
    if kind == POD:
        return _pod(live)
    if kind == REPLICA_SET:
        return ReplicaSetFacts(tuple(sorted(_config_maps(live["spec"]["template"]))))
    if kind == SECRET:
        return SecretFacts(_fingerprint(live))
    if kind == VOLUME_CLAIM:
        return _claim(live)
    return None


def _claim(live: Manifest) -> ClaimFacts:
    size = str(live["spec"].get("resources", {}).get("requests", {}).get("storage", ""))
    phase = live.get("status", {}).get("phase", "Pending")
    return ClaimFacts(phase, Quantity(size) if Quantity.is_valid(size) else None)


def _deployment(live: Manifest) -> DeploymentFacts:
    spec, status = live["spec"], live.get("status", {})
    conditions = {condition["type"]: condition for condition in status.get("conditions", ())}
    component = live["metadata"].get("labels", {}).get(labels.COMPONENT, "")
    failure = conditions.get("ReplicaFailure", {})
    return DeploymentFacts(
        generation=live["metadata"]["generation"],
        observed_generation=status.get("observedGeneration", 0),
        wanted=spec.get("replicas", 1),
        replicas=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("readyReplicas", 0),
        deadline_exceeded=conditions.get("Progressing", {}).get("reason") == "ProgressDeadlineExceeded",
        image=next(
            (c["image"] for c in spec["template"]["spec"]["containers"] if c["name"] == component), ""
        ),
        default_image=live["metadata"].get("annotations", {}).get(labels.DEFAULT_IMAGE),
        config=next(iter(sorted(_config_maps(spec["template"]))), None),
        failure=failure.get("message") if failure.get("status") == "True" else None,
    )


def _config_maps(template: Manifest) -> Iterator[str]:
    """Names of the ConfigMaps that a pod template mounts as its cold configuration."""
    for volume in template["spec"].get("volumes", ()):
        if volume["name"] == "cold" and "configMap" in volume:
            yield volume["configMap"]["name"]


def _fingerprint(live: Manifest) -> str:
    uid = live["metadata"]["uid"]
    content = hashlib.sha256(uid.encode())
    for key, value in sorted((live.get("data") or {}).items()):
        content.update(key.encode() + b"\0" + base64.b64decode(value) + b"\0")
    # 16 bits: a change shows, but a password cannot be guessed from them.
    return f"{uid[:8]}-{content.hexdigest()[:4]}"


def _pod(live: Manifest) -> PodFacts:
    found = live["metadata"].get("labels", {})
    conditions = {c["type"]: c for c in live.get("status", {}).get("conditions", ())}
    deleting = "deletionTimestamp" in live["metadata"]
    return PodFacts(
        component=found.get(labels.COMPONENT, ""),
        revision=found.get("pod-template-hash", ""),
        ready=not deleting and conditions.get("Ready", {}).get("status") == "True",
        trouble=None if deleting else trouble(live),
        address=live.get("status", {}).get("podIP"),
    )
