"""Why a pod does not serve, told in Kubernetes' own words."""

from __future__ import annotations

import pytest
from tests.unit.operator.live import pod

from ferry_operator.observing.pods import trouble


def container(**state):
    return {"name": "runtime", "ready": False, **state}


@pytest.mark.parametrize(
    ("state", "reason", "says"),
    [
        (
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
            "ImagePullBackOff",
            "no such image",
        ),
        (
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
            },
            "OOMKilled",
            "memory",
        ),
        (
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                "lastState": {
                    "terminated": {"reason": "Error", "exitCode": 2, "message": "the model needs 4 GB"}
                },
            },
            "CrashLoopBackOff",
            "exit code 2: the model needs 4 GB",
        ),
        (
            {"state": {"running": {}}, "lastState": {"terminated": {"reason": "OOMKilled"}}},
            "OOMKilled",
            "memory",
        ),
        (
            {"state": {"terminated": {"reason": "Error", "exitCode": 1}}},
            "ContainerFailed",
            "exit code 1",
        ),
    ],
)
def test_a_container_in_trouble(state, reason, says):
    found = trouble(pod(containerStatuses=[container(**state)]))
    assert found.reason == reason
    assert says in found.message


def test_an_unschedulable_pod_says_what_is_missing():
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    }
    found = trouble(pod(conditions=[condition]))
    assert found.reason == "Unschedulable"
    assert found.message == "Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


@pytest.mark.parametrize(
    "state",
    [
        {"state": {"waiting": {"reason": "ContainerCreating"}}},
        {"state": {"waiting": {"reason": "PodInitializing"}}},
        {"state": {"running": {}}},
    ],
)
def test_a_pod_that_is_only_starting_has_no_trouble(state):
    assert trouble(pod(containerStatuses=[container(**state)])) is None


def test_a_pod_that_recovered_has_no_trouble():
    recovered = {
        "name": "runtime",
        "ready": True,
        "state": {"running": {}},
        "lastState": {"terminated": {"reason": "OOMKilled"}},
    }
    assert trouble(pod(containerStatuses=[recovered])) is None


def test_a_long_message_is_cut():
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "x" * 5000}}
    assert len(trouble(pod(containerStatuses=[container(state=waiting)])).message) <= 256
