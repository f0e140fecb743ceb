"""What surrounds the runtime's pods: an identity without rights, a key, a volume, a disruption budget."""

from __future__ import annotations

from ferry_api.spec.model import ReclaimPolicy
from ferry_operator import labels
from ferry_operator.kinds import DISRUPTION_BUDGET, SECRET, SERVICE_ACCOUNT, VOLUME_CLAIM
from ferry_operator.labels import Component
from ferry_operator.plan import names
from ferry_operator.plan.inputs import Inputs
from ferry_operator.plan.model import Generated, Planned, Policy


def build(inputs: Inputs) -> tuple[Planned, ...]:
    """Each of them where it is needed."""
    return (*_service_account(inputs), _admin_key(inputs), *_weights(inputs), *_disruption_budget(inputs))


def _service_account(inputs: Inputs) -> tuple[Planned, ...]:
    if inputs.resource.spec.service_account_name is not None:
        return ()
    manifest = inputs.manifest(SERVICE_ACCOUNT, names.runtime(inputs.name), Component.RUNTIME)
    return (Planned({**manifest, "automountServiceAccountToken": False}),)


def _admin_key(inputs: Inputs) -> Planned:
    manifest = inputs.manifest(SECRET, names.admin(inputs.name), Component.RUNTIME)
    return Planned({**manifest, "type": "Opaque"}, Policy.CREATE_ONCE, Generated.ADMIN_KEY)


def _weights(inputs: Inputs) -> tuple[Planned, ...]:
    storage = inputs.resource.spec.model.storage
    if storage is None or storage.existing_claim is not None or storage.size is None:
        return ()
    # A retained claim outlives its InferenceService, so that reference must not be there at all.
    owned = storage.reclaim_policy == ReclaimPolicy.DELETE
    manifest = inputs.manifest(VOLUME_CLAIM, names.weights(inputs.name), Component.RUNTIME, owned=owned)
    manifest["spec"] = {
        "accessModes": [storage.access_mode.value],
        "resources": {"requests": {"storage": inputs.claim_size(names.weights(inputs.name), storage.size)}},
    }
    if storage.class_ is not None:
        manifest["spec"]["storageClassName"] = storage.class_
    return (Planned(manifest, Policy.OWNED if owned else Policy.RETAINED),)


def _disruption_budget(inputs: Inputs) -> tuple[Planned, ...]:
    """Only where one pod can go without ending the service: else a node could never be drained."""
    spec = inputs.resource.spec
    if spec.suspend or spec.replicas < 2:
        return ()
    manifest = inputs.manifest(DISRUPTION_BUDGET, names.runtime(inputs.name), Component.RUNTIME)
    manifest["spec"] = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": labels.selector(inputs.name, Component.RUNTIME)},
    }
    return (Planned(manifest),)
