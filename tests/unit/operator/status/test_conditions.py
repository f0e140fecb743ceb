"""The table of states: what each condition says in it."""

from __future__ import annotations

import pytest
from tests.unit.operator.samples import resource

from ferry_api.status import ConditionType
from ferry_api.validation import parse
from ferry_operator.kinds import SERVICE
from ferry_operator.observing.facts import DeploymentFacts, PodFacts
from ferry_operator.observing.pods import Trouble
from ferry_operator.status.conditions import conditions
from ferry_operator.status.picture import Picture


def deployment(**more):
    given = {
        "generation": 3,
        "observed_generation": 3,
        "wanted": 1,
        "replicas": 1,
        "updated": 1,
        "ready": 1,
        "deadline_exceeded": False,
        "image": "runtime:1",
        "default_image": "runtime:1",
        "config": "chat-runtime-1",
        "failure": None,
    }
    return DeploymentFacts(**{**given, **more})


def pod(*, ready=False, trouble=None, component="runtime"):
    return PodFacts(component=component, revision="a", ready=ready, trouble=trouble)


def told(spec=None, runtime=None, pods=(), redis=None, problems=(), **more):
    seen = Picture(
        resource=parse(resource(**(spec or {}))),
        runtime=runtime,
        redis=redis,
        runtime_pods=tuple(pods),
        redis_pods=(),
        problems=tuple(problems),
        **more,
    )
    found = conditions(seen)
    assert set(found) == set(ConditionType)
    return {of_type.value: (truth.status.value, truth.reason) for of_type, truth in found.items()}


_OOM = Trouble("OOMKilled", "more memory")
_PENDING = Trouble("Unschedulable", "Unschedulable: no node")

STATES = {
    "creating": (
        {},
        {
            "Available": ("False", "Creating"),
            "Ready": ("False", "Creating"),
            "Progressing": ("True", "Creating"),
        },
    ),
    "serving": (
        {"runtime": deployment(), "pods": [pod(ready=True)]},
        {
            "Available": ("True", "Serving"),
            "Ready": ("True", "Serving"),
            "Progressing": ("False", "Complete"),
            "Stalled": ("False", "Serving"),
        },
    ),
    "loading": (
        {"runtime": deployment(ready=0), "pods": [pod()]},
        {"Available": ("False", "Loading"), "Ready": ("False", "Loading"), "Stalled": ("False", "Loading")},
    ),
    "not taken up yet": (
        {"runtime": deployment(generation=4), "pods": [pod(ready=True)]},
        {"Available": ("True", "Serving"), "Ready": ("False", "Updating")},
    ),
    "old pods count for available only": (
        {"runtime": deployment(replicas=2, updated=1, ready=1), "pods": [pod(ready=True), pod()]},
        {
            "Available": ("True", "Serving"),
            "Ready": ("False", "RollingOut"),
            "Progressing": ("True", "RollingOut"),
        },
    ),
    "a broken revision beside a serving one": (
        {"runtime": deployment(replicas=2, ready=1), "pods": [pod(ready=True), pod(trouble=_OOM)]},
        {"Available": ("True", "Serving"), "Ready": ("False", "OOMKilled"), "Stalled": ("True", "OOMKilled")},
    ),
    "unschedulable may pass": (
        {"runtime": deployment(ready=0), "pods": [pod(trouble=_PENDING)]},
        {"Ready": ("False", "Unschedulable"), "Stalled": ("False", "Unschedulable")},
    ),
    "unschedulable for too long": (
        {"runtime": deployment(ready=0, deadline_exceeded=True), "pods": [pod(trouble=_PENDING)]},
        {"Ready": ("False", "Unschedulable"), "Stalled": ("True", "Unschedulable")},
    ),
    "too slow": (
        {"runtime": deployment(ready=0, deadline_exceeded=True), "pods": [pod()]},
        {"Ready": ("False", "ProgressDeadlineExceeded"), "Stalled": ("True", "ProgressDeadlineExceeded")},
    ),
    "a quota": (
        {"runtime": deployment(replicas=0, updated=0, ready=0, failure="exceeded quota")},
        {"Ready": ("False", "CannotCreatePods"), "Stalled": ("True", "CannotCreatePods")},
    ),
    "suspended": (
        {"spec": {"suspend": True}, "runtime": deployment(wanted=0, replicas=0, updated=0, ready=0)},
        {
            "Available": ("False", "Suspended"),
            "Ready": ("False", "Suspended"),
            "Progressing": ("False", "Suspended"),
            "CacheReady": ("False", "Suspended"),
            "Stalled": ("False", "Suspended"),
        },
    ),
    "stopping": (
        {"spec": {"replicas": 0}, "runtime": deployment(wanted=0, replicas=1, updated=1, ready=1)},
        {
            "Available": ("True", "Serving"),
            "Ready": ("False", "ScaledToZero"),
            "Progressing": ("True", "ScalingDown"),
        },
    ),
    "a problem beside serving pods": (
        {
            "runtime": deployment(),
            "pods": [pod(ready=True)],
            "problems": [Trouble("NameConflict", "Service chat")],
        },
        {
            "Available": ("True", "Serving"),
            "Ready": ("False", "NameConflict"),
            "Stalled": ("True", "NameConflict"),
            "RuntimeReady": ("True", "Serving"),
        },
    ),
    "a generation that is not made yet beside serving pods": (
        {
            "runtime": deployment(),
            "pods": [pod(ready=True)],
            "pending": Trouble("WaitingForRemoval", "Secret chat-redis"),
        },
        {
            "Available": ("True", "Serving"),
            "Ready": ("False", "WaitingForRemoval"),
            "Progressing": ("True", "WaitingForRemoval"),
            "Stalled": ("False", "WaitingForRemoval"),
        },
    ),
    "what somebody has to act upon before what passes": (
        {
            "runtime": deployment(),
            "problems": [Trouble("NameConflict", "Service chat")],
            "pending": Trouble("WaitingForRemoval", "Secret chat-redis"),
        },
        {"Ready": ("False", "NameConflict"), "Stalled": ("True", "NameConflict")},
    ),
    "somebody else's Service before serving pods": (
        {
            "runtime": deployment(),
            "problems": [
                Trouble("NameConflict", "Ingress"),
                Trouble("Refused", "Service", (SERVICE, "chat")),
            ],
            "lacking": (SERVICE, "chat"),
        },
        {"Available": ("False", "Refused"), "Ready": ("False", "NameConflict")},
    ),
    "a Service that is yet to be made": (
        {"runtime": deployment(), "lacking": (SERVICE, "chat")},
        {"Available": ("False", "Creating")},
    ),
    "somebody else's Service before Redis": (
        {
            "redis": deployment(),
            "problems": [Trouble("NameConflict", "Service", (SERVICE, "chat-redis"))],
            "redis_lacking": (SERVICE, "chat-redis"),
        },
        {"CacheReady": ("False", "NameConflict")},
    ),
    "redis serves": ({"redis": deployment()}, {"CacheReady": ("True", "Serving")}),
    "redis is down": ({"redis": deployment(ready=0)}, {"CacheReady": ("False", "Down")}),
    "no cache": ({"spec": {"cache": {"enabled": False}}}, {"CacheReady": ("False", "Disabled")}),
    "redis of the user's": (
        {"spec": {"cache": {"redis": {"external": {"urlSecretRef": {"name": "r"}}}}}},
        {"CacheReady": ("Unknown", "External")},
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_every_condition_is_true_to_the_state(state):
    given, expected = STATES[state]
    found = told(**given)
    assert {name: found[name] for name in expected} == expected


def test_the_same_trouble_is_told_whatever_the_order_of_pods():
    first, second = pod(trouble=_OOM), pod(trouble=Trouble("ImagePullBackOff", "no image"))
    runtime = deployment(ready=0, replicas=2)
    assert told(runtime=runtime, pods=[first, second]) == told(runtime=runtime, pods=[second, first])


def test_redis_down_leaves_the_service_ready():
    assert told(runtime=deployment(), pods=[pod(ready=True)], redis=deployment(ready=0))["Ready"][0] == "True"
