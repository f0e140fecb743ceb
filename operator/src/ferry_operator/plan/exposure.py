"""How clients and Prometheus reach the runtime: Service, Ingress or HTTPRoute, ServiceMonitor."""

from __future__ import annotations

from ferry_operator import labels
from ferry_operator.kinds import HTTP_ROUTE, INGRESS, SERVICE, SERVICE_MONITOR, Kind
from ferry_operator.labels import Component
from ferry_operator.plan import names
from ferry_operator.plan.inputs import Inputs
from ferry_operator.plan.model import Manifest, Planned

_PORT = 80
_PUBLIC = (("/v1", "Prefix"), ("/generate", "Exact"))
"""What is reachable from outside the cluster; the admin's routes and the metrics are not."""
_JOB = "ferry-runtime"
"""What the alerts and dashboards of the chart call the runtime's targets."""


def build(inputs: Inputs) -> tuple[Planned, ...]:
    """The Service, and what leads to it."""
    found = [_service(inputs)]
    if inputs.resource.spec.network.ingress is not None:
        found.append(_ingress(inputs))
    if inputs.resource.spec.network.http_route is not None and HTTP_ROUTE in inputs.served:
        found.append(_http_route(inputs))
    if SERVICE_MONITOR in inputs.served:
        found.append(_service_monitor(inputs))
    return tuple(Planned(manifest) for manifest in found)


def unserved(inputs: Inputs) -> str | None:
    """Why a way in that was asked for cannot be made in this cluster; None: it can."""
    if inputs.resource.spec.network.http_route is None or HTTP_ROUTE in inputs.served:
        return None
    return (
        "spec.network.httpRoute needs the Gateway API, which this cluster does not have: "
        "install its CRDs, or use spec.network.ingress"
    )


def url(inputs: Inputs) -> str:
    """Where clients reach the service: from outside if there is a way in, else from within the cluster."""
    network = inputs.resource.spec.network
    if network.ingress is not None:
        scheme = "https" if network.ingress.tls_secret_name else "http"
        return f"{scheme}://{network.ingress.host}"
    if network.http_route is not None and network.http_route.hostnames and HTTP_ROUTE in inputs.served:
        return f"http://{network.http_route.hostnames[0]}"
    namespace = inputs.resource.metadata.namespace
    return f"http://{names.service(inputs.name)}.{namespace}.svc.{inputs.defaults.cluster_domain}"


def way_in(inputs: Inputs) -> tuple[tuple[Kind, str], ...]:
    """The objects that a request to `url` goes through: without each of them nobody is reached there."""
    network, name = inputs.resource.spec.network, names.service(inputs.name)
    found = [(SERVICE, name)]
    if network.ingress is not None:
        found.append((INGRESS, name))
    elif network.http_route is not None and network.http_route.hostnames and HTTP_ROUTE in inputs.served:
        found.append((HTTP_ROUTE, name))
    return tuple(found)


def _service(inputs: Inputs) -> Manifest:
    manifest = inputs.manifest(SERVICE, names.service(inputs.name), Component.RUNTIME)
    manifest["spec"] = {
        "selector": labels.selector(inputs.name, Component.RUNTIME),
        "ports": [
            {"name": "http", "port": _PORT, "targetPort": "http", "protocol": "TCP", "appProtocol": "http"}
        ],
    }
    return manifest


def _ingress(inputs: Inputs) -> Manifest:
    wanted = inputs.resource.spec.network.ingress
    assert wanted is not None  # noqa: S101  (build asks)
    manifest = inputs.manifest(INGRESS, names.service(inputs.name), Component.RUNTIME)
    if wanted.annotations:
        manifest["metadata"]["annotations"] = dict(wanted.annotations)
    backend = {"service": {"name": names.service(inputs.name), "port": {"name": "http"}}}
    paths = [{"path": path, "pathType": kind, "backend": backend} for path, kind in _PUBLIC]
    spec: Manifest = {"rules": [{"host": wanted.host, "http": {"paths": paths}}]}
    if wanted.class_name is not None:
        spec["ingressClassName"] = wanted.class_name
    if wanted.tls_secret_name is not None:
        spec["tls"] = [{"hosts": [wanted.host], "secretName": wanted.tls_secret_name}]
    return {**manifest, "spec": spec}


def _http_route(inputs: Inputs) -> Manifest:
    wanted = inputs.resource.spec.network.http_route
    assert wanted is not None  # noqa: S101  (build asks)
    manifest = inputs.manifest(HTTP_ROUTE, names.service(inputs.name), Component.RUNTIME)
    kinds = {"Prefix": "PathPrefix", "Exact": "Exact"}
    matches = [{"path": {"type": kinds[kind], "value": path}} for path, kind in _PUBLIC]
    spec: Manifest = {
        "parentRefs": [
            parent.model_dump(mode="json", by_alias=True, exclude_none=True) for parent in wanted.parent_refs
        ],
        "rules": [{"matches": matches, "backendRefs": [{"name": names.service(inputs.name), "port": _PORT}]}],
    }
    if wanted.hostnames:
        spec["hostnames"] = list(wanted.hostnames)
    return {**manifest, "spec": spec}


def _service_monitor(inputs: Inputs) -> Manifest:
    manifest = inputs.manifest(SERVICE_MONITOR, names.service(inputs.name), Component.RUNTIME)
    own = manifest["metadata"]["labels"]
    manifest["metadata"]["labels"] = {**inputs.defaults.monitor_labels, **own}
    manifest["spec"] = {
        "selector": {"matchLabels": labels.selector(inputs.name, Component.RUNTIME)},
        # One job for all services, so that one set of rules and dashboards serves them: the label
        # `service` tells them apart.
        "endpoints": [
            {
                "port": "http",
                "path": "/metrics",
                "relabelings": [{"targetLabel": "job", "replacement": _JOB}],
            }
        ],
    }
    return manifest
