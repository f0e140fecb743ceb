"""What a plan is made from, besides the resource itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ferry_api.resource import InferenceService
from ferry_api.values import Quantity
from ferry_operator import labels
from ferry_operator.kinds import INFERENCE_SERVICE, Kind
from ferry_operator.labels import Component
from ferry_operator.plan.model import Manifest


@dataclass(frozen=True)
class InUse:
    """What a live Deployment runs, so that a new release of the operator does not roll it."""

    default_image: str | None
    """The default image it was given; None if its image was the user's choice."""
    config: str | None
    """The cold ConfigMap it mounts."""


@dataclass(frozen=True)
class Defaults:
    """This release's choices."""

    runtime_image: str
    redis_image: str
    cluster_domain: str = "cluster.local"
    immediate_rollout: bool = False
    monitor_labels: Mapping[str, str] = field(default_factory=dict)
    """For ServiceMonitors, besides our own."""


@dataclass(frozen=True)
class Inputs:
    """One InferenceService and the facts about the cluster that its plan depends on."""

    resource: InferenceService
    defaults: Defaults
    served: frozenset[Kind] = frozenset()
    """The optional kinds that the API server knows."""
    runtime_in_use: InUse | None = None
    redis_in_use: InUse | None = None
    redis_auth: str | None = None
    """Fingerprint of the generated Redis Secret, once there is one."""
    claimed: Mapping[str, Quantity] = field(default_factory=dict)
    """Sizes of the volume claims that there are, by name."""

    @property
    def name(self) -> str:
        return self.resource.metadata.name

    @property
    def uid(self) -> str:
        return self.resource.metadata.uid or ""

    def claim_size(self, name: str, wanted: Quantity) -> str:
        """The size to ask for. No claim can shrink, so what one has been grown to by hand is kept."""
        claimed = self.claimed.get(name, wanted)
        return str(max(wanted, claimed, key=lambda size: size.value))

    def metadata(self, name: str, component: Component, *, owned: bool = True) -> Manifest:
        """Metadata of one of this resource's objects."""
        metadata: Manifest = {
            "name": name,
            "namespace": self.resource.metadata.namespace,
            "labels": labels.labels(self.name, component),
        }
        if owned:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": INFERENCE_SERVICE.api_version,
                    "kind": INFERENCE_SERVICE.kind,
                    "name": self.name,
                    "uid": self.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ]
        return metadata

    def manifest(self, kind: Kind, name: str, component: Component, *, owned: bool = True) -> Manifest:
        """The head of one of this resource's objects."""
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": self.metadata(name, component, owned=owned),
        }
