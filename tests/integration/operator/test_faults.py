"""The operator is killed after any write, or any write goes wrong: the end is the same each time.

A sample of the places, drawn by FERRY_FAULT_SEED; all of them with FERRY_EVERY_FAULT=1 (`make soak`).
"""

from __future__ import annotations

import os
import random
import time

import pytest
from tests.integration.operator.cluster import wait_for
from tests.integration.operator.process import Operator, grant
from tests.integration.operator.proxy import proxy

_KINDS = (
    "serviceaccounts",
    "secrets",
    "configmaps",
    "services",
    "deployments",
    "networkpolicies",
    "ingresses",
    "poddisruptionbudgets",
)
_SPEC = {"replicas": 2, "network": {"ingress": {"host": "llm.example.com"}}}
_CERTAIN = 14  # writes that are made in any case: twelve children, an Event, a status
_PLACES = range(1, 25)  # and as many as it may take until everything serves
_SEED = int(os.environ.get("FERRY_FAULT_SEED", "6"))
_REASONS = {"409": "Conflict", "500": "InternalError", "429": "TooManyRequests"}
_VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "ownerReferences", "namespace")


def places(sampled):
    """Every place, or as many as asked for: the same ones in each worker of a run."""
    if os.environ.get("FERRY_EVERY_FAULT"):
        return list(_PLACES)
    return sorted(random.Random(_SEED).sample(range(1, _CERTAIN + 1), sampled))


def reached(place, between, chat):
    """Whether a write is made at all: whether some are gathered into one is a matter of time."""

    def serves():
        truths = [chat.condition(of_type)["status"] for of_type in ("Ready", "CacheReady")]
        return truths == ["True", "True"]

    wait_for(f"write {place}, or the end", lambda: between.writes >= place or serves(), 60)
    if place > _CERTAIN and between.writes < place:
        time.sleep(2)
    return between.writes >= place


def shape(chat):
    """Everything that was made, without what differs between two runs by nature."""
    found = {}
    for kind in _KINDS:
        for item in chat.all(kind):
            name = item["metadata"]["name"]
            if name.startswith("chat"):
                metadata = {k: v for k, v in item["metadata"].items() if k not in _VOLATILE}
                found[kind, name] = (sorted(metadata.get("labels", {}).items()), sorted(item.get("data", {})))
    found["revisions"] = len(chat.revisions())
    return found


@pytest.fixture
def breakable(plane, machine, namespace, tmp_path):
    """An operator behind a proxy, not started yet."""
    token = grant(plane.api, namespace, cluster_wide=False)
    with proxy(plane) as between:
        # A container that is started again keeps its pod's name, and with it the Lease.
        environment = {"FERRY_SCOPE": namespace, "POD_NAMESPACE": namespace, "POD_NAME": "operator-0"}
        made = Operator(tmp_path / "operator", plane.api, environment)
        config = between.kubeconfig(tmp_path / "kubeconfig", token)
        made.process.environment["KUBECONFIG"] = str(config)
        try:
            yield made, between
        finally:
            made.stop()


_EXPECTED: dict[str, object] = {}


def check(chat):
    chat.wait("Ready", "True", "Serving", seconds=60)
    chat.wait("CacheReady", "True", seconds=30)
    made = shape(chat)
    assert made["revisions"] == 1, "a password drawn twice rolls pods"
    assert _EXPECTED.setdefault("shape", made) == made


@pytest.mark.parametrize("place", places(6))
def test_killed_after_a_write(breakable, service, place):
    operator, between = breakable

    def kill(exchange):
        exchange.send()
        operator.process.running.kill()
        exchange.hang_up()

    between.break_write(place, kill)
    operator.start()
    chat = service(**_SPEC)
    if not reached(place, between, chat):
        pytest.skip("everything serves after fewer writes")
    wait_for("the operator to be killed", lambda: operator.process.running.poll() is not None, 60)
    operator.start()
    check(chat)


@pytest.mark.timeout(240)
def test_cut_off_for_a_while(breakable, service):
    operator, between = breakable
    operator.start().wait_ready()
    chat = service(**_SPEC)
    check(chat)
    process = operator.process.running
    between.cut(True)
    chat.api.delete(chat.path("services", "chat"))
    chat.apply(**{**_SPEC, "replicas": 3})
    time.sleep(60 if os.environ.get("FERRY_EVERY_FAULT") else 12)
    assert operator.answers("/livez")
    between.cut(False)
    wait_for("the child to come back", lambda: chat.child("services", "chat"), 60)
    chat.wait("Ready", "True", "Serving", seconds=60)
    assert chat.deployment()["spec"]["replicas"] == 3
    wait_for("the operator to be ready", lambda: operator.answers("/readyz"), 60)
    assert operator.process.running is process
    assert process.poll() is None


@pytest.mark.parametrize("fault", ["409", "500", "429", "lost request", "lost answer"])
@pytest.mark.parametrize("place", places(3))
def test_a_write_goes_wrong(breakable, service, place, fault):
    operator, between = breakable

    def break_it(exchange):
        if fault == "lost answer":
            exchange.send()
        if fault.startswith("lost"):
            exchange.hang_up()
        else:
            exchange.answer(int(fault), _REASONS[fault])

    between.break_write(place, break_it)
    operator.start()
    chat = service(**_SPEC)
    if not reached(place, between, chat):
        pytest.skip("everything serves after fewer writes")
    check(chat)
