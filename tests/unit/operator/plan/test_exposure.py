"""How the service is reached, and what of it from outside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.operator.samples import DEFAULTS, inputs, plan

from ferry_operator.kinds import HTTP_ROUTE, INGRESS, SERVICE, SERVICE_MONITOR
from ferry_operator.plan.build import build_plan
from ferry_operator.plan.exposure import unserved, url, way_in

_ROUTE = {"network": {"httpRoute": {"parentRefs": [{"name": "public"}], "hostnames": ["b.example.com"]}}}
_OPEN_ROUTE = {"network": {"httpRoute": {"parentRefs": [{"name": "public"}]}}}
_INGRESS = {"network": {"ingress": {"host": "a.example.com"}}}
_TLS = {"network": {"ingress": {"host": "a.example.com", "tlsSecretName": "tls"}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "http://chat.team.svc.cluster.local"),
        (_INGRESS, "http://a.example.com"),
        (_TLS, "https://a.example.com"),
        (_ROUTE, "http://b.example.com"),
        (_OPEN_ROUTE, "http://chat.team.svc.cluster.local"),
    ],
)
def test_the_url_is_the_outermost_way_in(spec, expected):
    assert url(inputs(spec, served=frozenset({HTTP_ROUTE}))) == expected


def test_the_url_is_the_service_where_the_route_cannot_be_made():
    assert url(inputs(_ROUTE)) == "http://chat.team.svc.cluster.local"


@pytest.mark.parametrize("served", [frozenset(), frozenset({HTTP_ROUTE})], ids=len)
@pytest.mark.parametrize("spec", [{}, _INGRESS, _TLS, _ROUTE, _OPEN_ROUTE], ids=str)
def test_the_way_in_is_planned_and_leads_to_the_urls_host(spec, served):
    given = inputs(spec, served=served)
    made = build_plan(given)
    objects = [made.get(kind, name).manifest for kind, name in way_in(given)]
    host = url(given).partition("://")[2]
    assert host.startswith("chat.") or host in str(objects[-1]["spec"])
    assert objects[0]["kind"] == "Service"


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


def test_a_service_monitor_calls_every_service_by_one_job_and_has_the_labels_that_are_selected_by():
    defaults = replace(DEFAULTS, monitor_labels={"release": "kps"})
    made = plan({}, served=frozenset({SERVICE_MONITOR}), defaults=defaults)
    (monitor,) = [planned.manifest for planned in made.objects if planned.kind == SERVICE_MONITOR]
    assert monitor["metadata"]["labels"]["release"] == "kps"
    assert monitor["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ferry-operator"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "ferry-runtime"}]
