"""Many InferenceServices beside ten times as many foreign Secrets and pods.

Prints what was measured; asserts what must hold on any machine, however busy. A few in every run, hundreds in
`make soak` (FERRY_SCALE sets the number); the figures are kept in bench/results/operator_scale.md.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from tests.integration.operator.audit import writes
from tests.integration.operator.cluster import Api, cluster, wait_for
from tests.integration.operator.process import ROOT, Operator, grant
from tests.integration.operator.service import Service

_FOREIGN = 10  # Secrets and pods each, per InferenceService
_RATE = 5.0  # per second
_MEMORY = 150  # MiB, resident
_RECONCILES = "ferry_operator_reconcile_duration_seconds_count"
_LAST = ("deployments", "services", "configmaps", "networkpolicies")


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A control plane of its own, without a node: nothing but the operator shall have to do."""
    with cluster(tmp_path_factory.mktemp("crowd")) as made:
        crd = yaml.safe_load((ROOT / "crds" / "inferenceservices.serving.ferry.dev.yaml").read_text())
        made.api.apply(
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}", crd
        )
        wait_for("the CRD", lambda: made.api.find("/apis/serving.ferry.dev/v1alpha1/inferenceservices"))
        yield made


def foreign(api, namespace, number):
    secret = {"metadata": {"name": f"foreign-{number}"}, "stringData": {"x": "y" * 200}}
    api.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
    pod = {
        "metadata": {"name": f"foreign-{number}"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "x", "image": "x"}]},
    }
    api.create(f"/api/v1/namespaces/{namespace}/pods", pod)


def moment(event):
    return datetime.fromisoformat(event["stageTimestamp"].replace("Z", "+00:00")).timestamp()


def waits(plane, since):
    """Seconds from the acceptance of each InferenceService to its last child's existence."""
    asked, served = {}, {}
    for event in plane.audit(since):
        target = event.get("objectRef", {})
        if event["verb"] != "patch" or event["responseStatus"]["code"] != 201:
            continue
        if target["resource"] == "inferenceservices":
            asked[target["name"]] = moment(event)
        elif target["resource"] in _LAST:
            name = target["name"].partition("-x")[0] + "-x"
            served[name] = max(served.get(name, 0.0), moment(event))
    return sorted(served[name] - asked[name] for name in asked)


def returns(plane, since):
    """Seconds from the deletion of each Service to its being there again."""
    gone, back = {}, {}
    for event in plane.audit(since):
        target = event.get("objectRef", {})
        if target.get("resource") == "services" and event["verb"] == "delete":
            gone[target["name"]] = moment(event)
        elif target.get("resource") == "services" and event["responseStatus"]["code"] == 201:
            back[target["name"]] = moment(event)
    return sorted(back[name] - at for name, at in gone.items())


def at(share, values):
    return values[min(int(len(values) * share), len(values) - 1)]


def spread(values):
    return f"p50 {at(0.5, values):.2f} s, p95 {at(0.95, values):.2f} s, max {values[-1]:.2f} s"


class Crowd:
    """One operator, many InferenceServices, and the figures that come of them."""

    def __init__(self, plane, folder, services):
        self.plane = plane
        self.services = services
        self.namespace = plane.namespace(f"crowd-{services}")
        token = grant(plane.api, self.namespace, cluster_wide=True)
        environment = {"FERRY_SCOPE": "*", "POD_NAMESPACE": self.namespace}
        self.operator = Operator(folder, Api(plane.url, token, plane.api.ca), environment)
        self.figures = {"InferenceServices": services, "foreign Secrets and pods, each": _FOREIGN * services}

    def surround(self):
        with ThreadPoolExecutor(8) as pool:
            total = range(_FOREIGN * self.services)
            list(pool.map(lambda number: foreign(self.plane.api, self.namespace, number), total))

    def apply(self):
        since, started = self.plane.audit_position(), time.monotonic()
        for number in range(self.services):
            time.sleep(max(0.0, started + number / _RATE - time.monotonic()))
            last = Service(self.plane.api, self.namespace, f"s{number}-x").apply()
        self.figures["applied per second"] = round(self.services / (time.monotonic() - started), 2)
        wait_for("the last one's status", lambda: last.condition("Ready")["reason"] == "Unschedulable", 120)
        wait_for("the operator to have come to rest", lambda: not self.written(3.0), 120)
        found = waits(self.plane, since)
        self.figures["children exist after"] = spread(found)
        self.figures["API calls per service"] = round(self.calls(since) / self.services, 1)
        return found

    def calls(self, since):
        return sum(
            event["user"]["username"].endswith(":ferry-operator")
            and event.get("objectRef", {}).get("resource") != "leases"
            and event["verb"] != "watch"
            for event in self.plane.audit(since)
        )

    def written(self, seconds):
        since = self.plane.audit_position()
        time.sleep(seconds)
        return writes(self.plane, since, self.namespace)

    def drift(self):
        since = self.plane.audit_position()
        for number in range(0, self.services, max(1, self.services // 20)):
            self.plane.api.delete(f"/api/v1/namespaces/{self.namespace}/services/s{number}-x")
            time.sleep(0.2)
        time.sleep(5)
        self.figures["a deleted Service is there again after"] = spread(returns(self.plane, since))

    def restart(self):
        since = self.plane.audit_position()
        self.operator.stop()
        begun = time.monotonic()
        self.operator.start().wait_ready()
        self.figures["ready after a restart in (s)"] = round(time.monotonic() - begun, 1)
        everything = self.services
        wait_for("every service looked at", lambda: self.operator.metric(_RECONCILES) >= everything, 120)
        self.figures["all of them looked at in (s)"] = round(time.monotonic() - begun, 1)
        time.sleep(5)
        return writes(self.plane, since, self.namespace)

    def resident(self):
        status = Path(f"/proc/{self.operator.process.running.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) // 1024


@pytest.mark.parametrize(
    ("services", "quiet"),
    [
        pytest.param(20, 5.0, id="some"),
        pytest.param(
            int(os.environ.get("FERRY_SCALE", "500")),
            120.0,
            marks=[pytest.mark.slow, pytest.mark.timeout(1500)],
            id="many",
        ),
    ],
)
def test_many_services_beside_many_foreign_objects(crowd, tmp_path, services, quiet):
    made = Crowd(crowd, tmp_path / "operator", services)
    try:
        made.surround()
        made.operator.start().wait_ready().wait_leading()
        assert len(made.apply()) == services
        assert made.written(quiet) == []
        made.figures["resident (MiB)"] = made.resident()
        made.drift()
        assert made.restart() == []
        made.figures["resident after the restart (MiB)"] = made.resident()
        assert made.figures["resident (MiB)"] <= _MEMORY
    finally:
        made.operator.stop()
        for name, value in made.figures.items():
            print(f"| {name} | {value} |")  # noqa: T201  (the figures are what this test is run for)
