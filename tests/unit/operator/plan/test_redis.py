"""The managed Redis, and what there is without one."""

from __future__ import annotations

import re

import pytest
from tests.unit.operator.samples import plan

from ferry_operator.kinds import DEPLOYMENT, NETWORK_POLICY, SECRET, SERVICE, VOLUME_CLAIM
from ferry_operator.plan.inputs import Defaults, InUse


def command(spec=None, **more):
    container = plan(spec, **more).get(DEPLOYMENT, "chat-redis").manifest["spec"]["template"]["spec"]
    return container["containers"][0]["command"][-1]


@pytest.mark.parametrize(
    ("managed", "memory"),
    [
        ({}, 256 * 1024**2 * 6 // 10),
        ({"resources": {"limits": {"memory": "1Gi"}}}, 1024**3 * 6 // 10),
        ({"maxMemory": "100Mi"}, 100 * 1024**2),
        ({"resources": {"requests": {"cpu": "1"}}}, 128 * 1024**2),
    ],
    ids=str,
)
def test_redis_keeps_to_sixty_percent_of_its_limit(managed, memory):
    assert f"--maxmemory {memory} " in command({"cache": {"redis": {"managed": managed}}})


@pytest.mark.parametrize("huge", ["1e5000", "9" * 5000, "99999Ei"])
def test_a_limit_past_all_memory_is_still_a_plan(huge):
    assert f"--maxmemory {(2**63 - 1) * 6 // 10} " in command(
        {"cache": {"redis": {"managed": {"resources": {"limits": {"memory": huge}}}}}}
    )


def test_redis_evicts_only_what_expires():
    assert "--maxmemory-policy volatile-lfu" in command()


def test_only_the_runtime_reaches_redis():
    policy = plan().get(NETWORK_POLICY, "chat-redis").manifest["spec"]
    (rule,) = policy["ingress"]
    assert rule["from"][0]["podSelector"]["matchLabels"]["serving.ferry.dev/component"] == "runtime"


def test_an_external_redis_leaves_nothing_to_run():
    made = plan({"cache": {"redis": {"external": {"urlSecretRef": {"name": "redis"}}}}})
    assert {o.name for o in made.objects if o.name == "chat-redis"} == set()


def test_switching_the_cache_off_keeps_the_password():
    made = plan({"cache": {"enabled": False}})
    assert made.get(SECRET, "chat-redis") is not None
    assert made.get(DEPLOYMENT, "chat-redis") is None
    assert made.get(SERVICE, "chat-redis") is None


@pytest.mark.parametrize("off", [{"cache": {"enabled": False}}, {"suspend": True}, {"replicas": 0}], ids=str)
def test_switching_anything_off_keeps_the_volume(off):
    storage = {"redis": {"managed": {"storage": {"size": "2Gi"}}}}
    spec = {**off, "cache": {**off.get("cache", {}), **storage}}
    before = plan({"cache": storage}).get(VOLUME_CLAIM, "chat-redis")
    assert before is not None
    assert plan(spec).get(VOLUME_CLAIM, "chat-redis") == before


def test_the_volume_goes_when_it_is_no_longer_asked_for():
    assert plan({"cache": {"redis": {"managed": {}}}}).get(VOLUME_CLAIM, "chat-redis") is None


def test_a_new_release_of_the_operator_does_not_empty_the_cache():
    later = Defaults("example.com/ferry-runtime:2.0.0", "example.com/valkey:9.0")
    made = plan(defaults=later, redis_in_use=InUse("example.com/valkey:8.1", None))
    assert made.get(DEPLOYMENT, "chat-redis") == plan().get(DEPLOYMENT, "chat-redis")


@pytest.mark.parametrize("probe", ["readinessProbe", "livenessProbe"])
def test_a_probe_ends_by_itself_before_the_kubelet_gives_it_up(probe):
    """Else a container runtime waits for the client of a Redis that hangs, and no probe ever fails."""
    (container,) = plan().get(DEPLOYMENT, "chat-redis").manifest["spec"]["template"]["spec"]["containers"]
    shell = container[probe]["exec"]["command"][-1]
    (seconds,) = re.findall(r"timeout (\d+) redis-cli ", shell)
    assert 0 < int(seconds) < container[probe]["timeoutSeconds"] < container[probe]["periodSeconds"]
