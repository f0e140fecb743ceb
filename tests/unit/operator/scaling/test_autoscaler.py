"""One look: who is asked, what is written, and what keeps it from being written."""

from __future__ import annotations

import copy

import pytest
from tests.unit.operator.live import pod
from tests.unit.operator.samples import resource

from ferry_operator.errors import Conflict
from ferry_operator.kinds import POD
from ferry_operator.metrics import Metrics
from ferry_operator.observing.facts import observe
from ferry_operator.observing.store import Store
from ferry_operator.scaling.autoscaler import Autoscaler
from ferry_operator.scaling.decide import Load

_SCALING = {"maxReplicas": 5, "scaleDownDelay": "5m"}


class Api:
    def __init__(self):
        self.scaled = []
        self.events = []
        self.failing = None

    async def scale(self, resource, replicas):
        if self.failing is not None:
            raise self.failing
        self.scaled.append(replicas)

    async def apply(self, manifest, *, force):
        self.events.append((manifest["reason"], manifest["message"]))


class Scene:
    """Pods by address, and what each of them says."""

    def __init__(self):
        self.api, self.store, self.now = Api(), Store(), 1000.0
        self.says = {}
        self.version = 100
        self.metrics = Metrics()
        self.autoscaler = self.another()

    def another(self):
        return Autoscaler(
            self.api,
            self.store,
            metrics=self.metrics,
            every=15.0,
            reporter="test",
            ask=self.ask,
            clock=lambda: self.now,
        )

    @property
    def silent(self):
        return self.metrics.registry.get_sample_value("ferry_operator_scaling_unanswered")

    async def ask(self, session, address):
        return self.says[address]

    def asks(self, replicas, **spec):
        made = resource(replicas=replicas, **{"scaling": {"controller": "Builtin", **_SCALING}, **spec})
        self.version += 1
        made["metadata"]["resourceVersion"] = str(self.version)
        self.store.put_resource(made)
        return self

    def pods(self, *loads):
        for number, load in enumerate(loads):
            address = f"10.0.0.{number}"
            self.says[address] = load
            live = copy.deepcopy(pod(podIP=address, conditions=[{"type": "Ready", "status": "True"}]))
            live["metadata"].update(name=f"pod-{number}", uid=f"pod-{number}")
            self.store.put_child(observe(POD, live))
        return self

    async def look(self, after=0.0):
        self.now += after
        await self.autoscaler.look(None)
        return self.api.scaled


@pytest.fixture
def scene():
    return Scene()


async def test_more_work_than_one_pod_should_have_is_more_pods_at_once(scene):
    scene.asks(1).pods(Load(waiting=20, running=8))
    assert await scene.look() == [3]
    assert scene.api.events == [("ScaledUp", "replicas 1 to 3: 20 requests wait and 8 run")]


async def test_pods_that_are_loading_are_not_asked_for_twice(scene):
    scene.asks(1).pods(Load(waiting=20, running=8))
    await scene.look()
    scene.asks(3)
    assert await scene.look(15) == [3]


async def test_fewer_only_after_the_delay(scene):
    scene.asks(3).pods(Load(0, 1), Load(0, 0), Load(0, 0))
    for _ in range(20):
        assert await scene.look(14) == []
    assert await scene.look(40) == [1]


async def test_a_pod_that_does_not_answer_keeps_the_count_from_falling(scene):
    scene.asks(3).pods(Load(0, 1), Load(0, 0), None)
    for _ in range(40):
        assert await scene.look(15) == []
    assert scene.silent == 1
    scene.pods(Load(0, 1), Load(0, 0), Load(0, 0))
    await scene.look(15)
    assert scene.silent == 0


async def test_without_any_answer_nothing_is_changed_but_the_bounds_hold(scene):
    scene.asks(3).pods(None)
    assert await scene.look(400) == []
    scene.asks(9)
    assert await scene.look(15) == [5]


@pytest.mark.parametrize(
    "spec",
    [
        {"scaling": {**_SCALING, "controller": "External"}},
        {"suspend": True},
        {"replicas": 0},
        {"model": {"source": "package://x", "dtype": "unknown to this release"}},
    ],
    ids=str,
)
async def test_who_did_not_ask_is_left_alone(scene, spec):
    scene.asks(**{"replicas": 1, **spec}).pods(Load(waiting=50, running=8))
    assert await scene.look() == []


async def test_a_count_that_somebody_else_has_changed_meanwhile_is_looked_at_anew(scene):
    scene.asks(1).pods(Load(waiting=20, running=8))
    scene.api.failing = Conflict("PATCH", 409, "Conflict", "modified")
    assert await scene.look() == []
    assert scene.api.events == []
    scene.api.failing = None
    assert await scene.look(15) == [3]


async def test_a_new_leader_waits_for_the_whole_delay(scene):
    scene.asks(3).pods(Load(0, 0), Load(0, 0), Load(0, 0))
    for _ in range(20):
        await scene.look(14)
    scene.autoscaler = scene.another()
    assert await scene.look(40) == []
