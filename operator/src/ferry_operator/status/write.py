"""A status as it is stored, and the events that tell its turning points."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ferry_api.resource import InferenceService
from ferry_api.status import Authentication, ConditionStatus, ConditionType
from ferry_operator import labels
from ferry_operator.kinds import EVENT, INFERENCE_SERVICE
from ferry_operator.labels import Component
from ferry_operator.status.conditions import Truth, conditions
from ferry_operator.status.picture import Picture

Manifest = dict[str, Any]
_TOLD = (ConditionType.READY, ConditionType.AVAILABLE, ConditionType.CACHE_READY)


def status(seen: Picture, url: str, now: str) -> Manifest:
    """The whole status. `now` (RFC 3339) dates the conditions whose status differs from the stored one's."""
    resource = seen.resource
    runtime = seen.runtime
    keyed = resource.spec.auth.api_keys_secret_ref is not None
    found: Manifest = {
        "observedGeneration": resource.metadata.generation or 0,
        "url": url,
        "replicas": runtime.replicas if runtime else 0,
        "readyReplicas": runtime.ready if runtime else 0,
        "selector": _selector(resource.metadata.name),
        "authentication": (Authentication.API_KEYS if keyed else Authentication.ANONYMOUS).value,
        "conditions": [
            _condition(resource, of_type, truth, now) for of_type, truth in conditions(seen).items()
        ],
    }
    if runtime and runtime.image:
        found["image"] = runtime.image
    return found


def _selector(name: str) -> str:
    selector = labels.selector(name, Component.RUNTIME)
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))


def _condition(resource: InferenceService, of_type: ConditionType, truth: Truth, now: str) -> Manifest:
    known = resource.status.condition(of_type)
    unchanged = known is not None and known.status == truth.status
    return {
        "type": of_type.value,
        "status": truth.status.value,
        "reason": truth.reason,
        "message": truth.message,
        "observedGeneration": resource.metadata.generation or 0,
        "lastTransitionTime": known.last_transition_time if known is not None and unchanged else now,
    }


def invalid_status(stored: Mapping[str, Any], generation: int, message: str, now: str) -> Manifest:
    """The status of a resource that this operator cannot read: as before, and why it stands still."""
    kept = {key: value for key, value in stored.items() if key != "conditions"}
    known = {condition["type"]: condition for condition in stored.get("conditions", ())}
    truths = {
        ConditionType.READY: ConditionStatus.FALSE,
        ConditionType.PROGRESSING: ConditionStatus.FALSE,
        ConditionType.STALLED: ConditionStatus.TRUE,
    }
    found = []
    for of_type in ConditionType:
        before = known.get(of_type.value, {})
        value = truths.get(of_type, ConditionStatus(before.get("status", "Unknown"))).value
        if of_type not in truths and before:
            found.append(dict(before))
            continue
        same = before.get("status") == value
        found.append(
            {
                "type": of_type.value,
                "status": value,
                "reason": "InvalidSpec",
                "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": before["lastTransitionTime"] if same else now,
            }
        )
    return {"replicas": 0, "readyReplicas": 0, **kept, "observedGeneration": generation, "conditions": found}


def events(resource: Mapping[str, Any], written: Manifest, now: str, reporter: str) -> list[Manifest]:
    """One Event for each condition worth telling whose status or reason differs from the stored one's.

    The name depends on what was stored, not on the time: told again after a crash, it is the same Event.
    """
    before = {c["type"]: c for c in resource.get("status", {}).get("conditions", ())}
    after = {c["type"]: c for c in written["conditions"]}
    stuck = after[ConditionType.STALLED.value]["status"] == "True"
    found = []
    for of_type in _TOLD:
        old, new = before.get(of_type.value), after[of_type.value]
        if old is None and of_type != ConditionType.READY:
            continue
        if old is not None and (old["status"], old["reason"]) == (new["status"], new["reason"]):
            continue
        warns = new["status"] == "False" and (
            (of_type == ConditionType.READY and stuck) or of_type == ConditionType.AVAILABLE
        )
        since = old["lastTransitionTime"] + old["reason"] if old else ""
        told = (of_type.value, since, new["status"], new["reason"], new["observedGeneration"])
        event = event_about(
            resource,
            told,
            reason=new["reason"],
            message=f"{of_type.value}={new['status']}: {new['message']}",
            now=now,
            reporter=reporter,
            kind="Warning" if warns else "Normal",
        )
        found.append(event)
    return found


def event_about(
    resource: Mapping[str, Any],
    told: tuple[object, ...],
    *,
    reason: str,
    message: str,
    now: str,
    reporter: str,
    kind: str = "Normal",
) -> Manifest:
    """An Event about an InferenceService. `told` is what makes it this one: the same again has its name."""
    metadata = resource["metadata"]
    digest = hashlib.sha256(repr((metadata["uid"], *told)).encode()).hexdigest()[:16]
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": f"{metadata['name']}.{digest}", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": INFERENCE_SERVICE.api_version,
            "kind": INFERENCE_SERVICE.kind,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": kind,
        "reason": reason,
        "message": message,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": labels.MANAGER},
        "reportingComponent": labels.MANAGER,
        "reportingInstance": reporter,
    }
