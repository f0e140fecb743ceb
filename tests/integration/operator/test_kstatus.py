"""Tools that know no InferenceService (Argo CD, Flux, Helm 4, kpt) read its state by kstatus' rules.

https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md
"""

from __future__ import annotations

from tests.integration.operator.cluster import wait_for
from tests.integration.operator.node import loading, serving, waiting

_IMAGE = "example.com/runtime:new"


def kstatus(chat):
    """The state that those rules give for a resource of an unknown kind."""
    whole = chat.get()
    if "deletionTimestamp" in whole["metadata"]:
        return "Terminating"
    status = whole.get("status", {})
    if status.get("observedGeneration") != whole["metadata"]["generation"]:
        return "InProgress"
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "Current" if conditions["Ready"] == "True" else "InProgress"


def test_loading_serving_rolling_broken_and_mended(ferry, service, machine):
    machine.by_image[_IMAGE] = loading
    chat = service(engine={"image": _IMAGE})
    chat.wait("Ready", "False", "Loading")
    assert kstatus(chat) == "InProgress"
    machine.by_image[_IMAGE] = serving
    chat.wait("Ready", "True")
    assert kstatus(chat) == "Current"
    machine.by_image["broken:1"] = waiting("ImagePullBackOff", "no such image")
    chat.apply(engine={"image": "broken:1"})
    assert kstatus(chat) == "InProgress"
    chat.wait("Stalled", "True", "ImagePullBackOff")
    assert kstatus(chat) == "Failed"
    chat.apply(engine={"image": _IMAGE})
    chat.wait("Ready", "True")
    assert kstatus(chat) == "Current"


def test_what_a_user_asked_for_is_never_reported_as_failed(ferry, service):
    chat = service(suspend=True)
    chat.wait("Ready", "False", "Suspended")
    assert kstatus(chat) == "InProgress"
    chat.apply(replicas=0)
    chat.wait("Ready", "False", "ScaledToZero")
    assert kstatus(chat) == "InProgress"


def test_a_change_is_in_progress_from_the_moment_it_is_accepted(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    ferry.stop()
    try:
        chat.apply(batching={"maxBatchSize": 3})
        assert kstatus(chat) == "InProgress"
        chat.api.delete(chat.own, "Foreground")
        wait_for("it to be going", lambda: chat.api.find(chat.own) is None or kstatus(chat) == "Terminating")
    finally:
        ferry.start().wait_ready()
