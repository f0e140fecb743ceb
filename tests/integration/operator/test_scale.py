"""Hundreds of InferenceServices beside thousands of foreign objects. Minutes long: `make soak`.

Prints what was measured; asserts what must hold on any machine, however busy. FERRY_SCALE sets the number.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from tests.integration.operator.cluster import Api, cluster, wait_for
from tests.integration.operator.process import ROOT, Operator, grant
from tests.integration.operator.service import Service
from tests.integration.operator.test_reconcile import writes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
_SERVICES = int(os.environ.get("FERRY_SCALE", "500"))
_FOREIGN = 10 * _SERVICES
_RATE = 5.0  # per second
_QUIET = 120.0  # seconds
_MEMORY = 150  # MiB, resident


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


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def waits(plane, since):
    """Seconds from the acceptance of each InferenceService to its last child's existence."""
    asked, served = {}, {}
    for event in plane.audit(since):
        target = event.get("objectRef", {})
        if event["verb"] != "patch" or event["responseStatus"]["code"] != 201:
            continue
        if target["resource"] == "inferenceservices":
            asked[target["name"]] = moment(event["stageTimestamp"])
        elif target["resource"] in ("deployments", "services", "configmaps", "networkpolicies"):
            name = target["name"].partition("-x")[0] + "-x"
            served[name] = max(served.get(name, 0.0), moment(event["stageTimestamp"]))
    return sorted(served[name] - asked[name] for name in asked)


def resident(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def test_many_services_beside_many_foreign_objects(crowd, tmp_path):
    namespace = crowd.namespace("crowd")
    token = grant(crowd.api, namespace, cluster_wide=True)
    environment = {"FERRY_SCOPE": "cluster", "POD_NAMESPACE": namespace}
    operator = Operator(tmp_path / "operator", Api(crowd.url, token, crowd.api.ca), environment)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: foreign(crowd.api, namespace, number), range(_FOREIGN)))
        operator.start().wait_ready().wait_leading()
        since = crowd.audit_position()
        started = time.monotonic()
        for number in range(_SERVICES):
            time.sleep(max(0.0, started + number / _RATE - time.monotonic()))
            Service(crowd.api, namespace, f"s{number}-x").apply()
        last = Service(crowd.api, namespace, f"s{_SERVICES - 1}-x")
        wait_for("the last one's status", lambda: last.condition("Ready")["reason"] == "Unschedulable", 120)
        time.sleep(20)
        found = waits(crowd, since)
        assert len(found) == _SERVICES
        since = crowd.audit_position()
        time.sleep(_QUIET)
        quiet = writes(crowd, since, namespace)
        memory = resident(operator.process.running)
        since = crowd.audit_position()
        operator.stop()
        begun = time.monotonic()
        operator.start().wait_ready()
        ready = time.monotonic() - begun
        reconciles = "ferry_operator_reconcile_duration_seconds_count"
        wait_for("every service to be looked at", lambda: operator.metric(reconciles) >= _SERVICES, 120)
        time.sleep(5)
        print(  # noqa: T201  (the figures are what this test is run for)
            f"\n{_SERVICES} services at {_RATE}/s beside {_FOREIGN} Secrets and pods: children after "
            f"p50 {found[len(found) // 2]:.2f} s, p95 {found[int(len(found) * 0.95)]:.2f} s, "
            f"max {found[-1]:.2f} s; resident {memory:.0f} MiB, after restart "
            f"{resident(operator.process.running):.0f} MiB; ready {ready:.1f} s after a restart"
        )
        assert quiet == []
        assert writes(crowd, since, namespace) == []
        assert memory <= _MEMORY
    finally:
        operator.stop()
