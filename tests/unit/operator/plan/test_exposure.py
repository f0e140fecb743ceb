"""How the service is reached, and what of it from outside."""

from __future__ import annotations

import pytest
from tests.unit.operator.samples import inputs, plan

from ferry_operator.kinds import HTTP_ROUTE, INGRESS, SERVICE
from ferry_operator.plan.exposure import unserved, url

_ROUTE = {"network": {"httpRoute": {"parentRefs": [{"name": "public"}], "hostnames": ["b.example.com"]}}}
_INGRESS = {"network": {"ingress": {"host": "a.example.com"}}}
_TLS = {"network": {"ingress": {"host": "a.example.com", "tlsSecretName": "tls"}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "http://chat.team.svc.cluster.local"),
        (_INGRESS, "http://a.example.com"),
        (_TLS, "https://a.example.com"),
        (_ROUTE, "http://b.example.com"),
    ],
)
def test_the_url_is_the_outermost_way_in(spec, expected):
    assert url(inputs(spec)) == expected


def test_only_the_inference_routes_are_public():
    (rule,) = plan(_INGRESS).get(INGRESS, "chat").manifest["spec"]["rules"]
    assert [path["path"] for path in rule["http"]["paths"]] == ["/v1", "/generate"]


def test_a_route_is_planned_only_where_it_can_be_and_else_it_is_said():
    assert plan(_ROUTE).get(HTTP_ROUTE, "chat") is None
    assert "install its CRDs" in unserved(inputs(_ROUTE))
    served = frozenset({HTTP_ROUTE})
    assert plan(_ROUTE, served=served).get(HTTP_ROUTE, "chat") is not None
    assert unserved(inputs(_ROUTE, served=served)) is None
    assert unserved(inputs(_INGRESS)) is None


def test_the_services_selector_is_frozen():
    """Changing it cuts running pods of an earlier release off: never."""
    assert plan().get(SERVICE, "chat").manifest["spec"]["selector"] == {
        "serving.ferry.dev/inferenceservice": "chat",
        "serving.ferry.dev/component": "runtime",
    }
