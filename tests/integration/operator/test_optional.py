"""Kinds that a cluster may have or not: used where they are, missed without harm where they are not."""

from __future__ import annotations

import pytest
from tests.integration.operator.cluster import wait_for
from tests.integration.operator.process import operator

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KINDS = (
    ("monitoring.coreos.com", "servicemonitors", "ServiceMonitor"),
    ("gateway.networking.k8s.io", "httproutes", "HTTPRoute"),
)


def crd(group, plural, kind):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    approved = {"api-approved.kubernetes.io": "unapproved, for a test"}
    return {
        "metadata": {"name": f"{plural}.{group}", "annotations": approved},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [version],
        },
    }


@pytest.fixture
def optional(plane):
    for group, plural, kind in _KINDS:
        plane.api.create(_CRDS, crd(group, plural, kind))
        wait_for(plural, lambda group=group, plural=plural: plane.api.find(f"/apis/{group}/v1/{plural}"))
    yield
    for group, plural, _ in _KINDS:
        path = f"{_CRDS}/{plural}.{group}"
        plane.api.delete(path)
        wait_for(f"{plural} to go", lambda path=path: plane.api.find(path) is None)


_ROUTE = {"httpRoute": {"parentRefs": [{"name": "public"}], "hostnames": ["llm.example.com"]}}


@pytest.mark.usefixtures("machine", "optional")
def test_routes_and_monitors_are_made_kept_and_removed(plane, namespace, service, tmp_path):
    with operator(plane, namespace, tmp_path / "operator"):
        chat = service(network=_ROUTE)
        chat.wait("Ready", "True")
        assert chat.get()["status"]["url"] == "http://llm.example.com"
        route = f"/apis/gateway.networking.k8s.io/v1/namespaces/{namespace}/httproutes/chat"
        monitor = f"/apis/monitoring.coreos.com/v1/namespaces/{namespace}/servicemonitors/chat"
        for path in (route, monitor):
            uid = plane.api.get(path)["metadata"]["uid"]
            plane.api.delete(path)

            def back(path=path, uid=uid):
                found = plane.api.find(path)
                return found and found["metadata"]["uid"] != uid

            wait_for(f"{path} to come back", back, 15)
        chat.apply()
        wait_for("the route to go", lambda: plane.api.find(route) is None, 15)


def test_a_route_without_the_gateway_api_is_said(ferry, service):
    chat = service(network=_ROUTE)
    found = chat.wait("Ready", "False", "GatewayNotInstalled")
    assert "install its CRDs" in found["message"]
    chat.wait("RuntimeReady", "True")
    # The host of a route that cannot be made leads nowhere: the URL is the Service's, which does serve.
    chat.wait("Available", "True")
    assert chat.get()["status"]["url"] == f"http://chat.{chat.namespace}.svc.cluster.local"
    chat.apply()
    chat.wait("Ready", "True")
