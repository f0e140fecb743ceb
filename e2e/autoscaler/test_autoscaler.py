"""A HorizontalPodAutoscaler writes replicas through the scale subresource; the operator lets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from e2e.harness.cluster import wait_for
from e2e.harness.images import metrics_server
from e2e.harness.place import expect_no_failure

HERE = Path(__file__).parent


@pytest.fixture
def resource_metrics(release):
    cluster, image = release.cluster, metrics_server()
    cluster.load(image)
    server = (HERE / "metrics-server.yaml").read_text().replace("${IMAGE}", image)
    api = (HERE / "metrics-api.yaml").read_text()
    cluster.kubectl("apply", "--filename", "-", text=server)
    try:
        where = ("deployment/metrics-server", "--namespace=kube-system", "--timeout=120s")
        cluster.kubectl("rollout", "status", *where, seconds=150)
        cluster.kubectl("apply", "--filename", "-", text=api)
        pods = "/apis/metrics.k8s.io/v1beta1/pods"
        wait_for("resource metrics", lambda: json.loads(cluster.kubectl("get", "--raw", pods))["items"])
        yield
    finally:
        # An aggregated API that answers no more would keep namespaces from going: it goes first.
        cluster.kubectl("delete", "--filename", "-", "--ignore-not-found", text=api)
        cluster.kubectl("delete", "--filename", "-", "--ignore-not-found", text=server)


def _replicas(place):
    return place.service("busy")["spec"]["replicas"]


@pytest.mark.usefixtures("resource_metrics")
def test_an_autoscaler_decides(place):
    place.apply(HERE / "service.yaml")
    place.wait_ready("busy")
    with place.traffic("busy", "--clients", "4") as traffic:
        place.note(
            "the autoscaler asks for more", wait_for("more replicas", lambda: _replicas(place) > 1, 180)
        )
        wait_for("three replicas", lambda: _replicas(place) == 3, 180)
        place.wait_ready("busy")
        traffic.until("answers of three pods", lambda record: len(record.answers()) == 3, 120)
    expect_no_failure(traffic.record)
    managers = {
        entry["manager"]
        for entry in place.cluster.get(
            "infsvc", "busy", "--namespace", place.namespace, "--show-managed-fields"
        )["metadata"]["managedFields"]
        if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    }
    assert not any("ferry" in manager for manager in managers), managers
    # Without work it takes them back, and the operator lets it.
    wait_for("one replica", lambda: _replicas(place) == 1, 240)
    place.wait_ready("busy")
    wait_for("one pod", lambda: len(place.pods("busy")) == 1)
