"""The kinds of objects that the operator reads or writes, and their paths in the API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One namespaced resource type of the Kubernetes API."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of a collection (no name), an object or a subresource; no namespace: of all of them."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


INFERENCE_SERVICE = Kind("serving.ferry.dev", "v1alpha1", "inferenceservices", "InferenceService")
DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")
REPLICA_SET = Kind("apps", "v1", "replicasets", "ReplicaSet")
POD = Kind("", "v1", "pods", "Pod")
SERVICE = Kind("", "v1", "services", "Service")
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
SECRET = Kind("", "v1", "secrets", "Secret")
VOLUME_CLAIM = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
SERVICE_ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount")
DISRUPTION_BUDGET = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
INGRESS = Kind("networking.k8s.io", "v1", "ingresses", "Ingress")
HTTP_ROUTE = Kind("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute")
SERVICE_MONITOR = Kind("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor")
EVENT = Kind("", "v1", "events", "Event")
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")

APPLIED = (
    SERVICE_ACCOUNT,
    SECRET,
    CONFIG_MAP,
    VOLUME_CLAIM,
    NETWORK_POLICY,
    SERVICE,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    INGRESS,
)
"""What the operator writes, in the order in which it is created: what pods refer to comes before them."""

OPTIONAL = (HTTP_ROUTE, SERVICE_MONITOR)
"""Written only where their CRDs are installed."""

OBSERVED = (REPLICA_SET, POD)
"""Made by Kubernetes' controllers from what the operator wrote; read, never written."""

CHILDREN = (*APPLIED, *OPTIONAL, *OBSERVED)

_BY_TYPE = {(kind.api_version, kind.kind): kind for kind in (*CHILDREN, INFERENCE_SERVICE, EVENT, LEASE)}


def kind_of(api_version: str, kind: str) -> Kind:
    """The kind that a manifest names.

    :raises KeyError: for one that the operator has no business with.
    """
    return _BY_TYPE[api_version, kind]


def without(kinds: Iterable[Kind], absent: frozenset[Kind]) -> tuple[Kind, ...]:
    return tuple(kind for kind in kinds if kind not in absent)
