"""The cache's store goes away, hangs, or changes its password: answers go on."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import yaml
from e2e.harness.cluster import wait_for
from e2e.harness.place import expect_no_failure

HERE = Path(__file__).parent


def _begin(place):
    place.apply(HERE / "service.yaml")
    place.wait_ready("cached")
    place.wait_condition("cached", "CacheReady", "True")


def _stop(pod):
    """Stop the pod's redis-server, found on its node by the pod's uid; fails if that has no effect."""
    uid = pod["metadata"]["uid"]
    script = (
        f"for p in $(pgrep redis-server); do grep -q {uid} /proc/$p/cgroup && kill -STOP $p && sleep 0.2 "
        "&& grep -q '^State:.T' /proc/$p/status && exit 0; done; exit 1"
    )
    subprocess.run(["docker", "exec", pod["spec"]["nodeName"], "bash", "-c", script], check=True, timeout=30)


def _restarts(place):
    (pod,) = place.pods("cached", "redis")
    return pod["status"]["containerStatuses"][0]["restartCount"]


def _expect_hits(place, name):
    place.chat(name, "Is this remembered?")
    wait_for("a hit", lambda: place.chat(name, "Is this remembered?").cache == "exact")


def test_redis_is_killed(place):
    _begin(place)
    with place.traffic("cached") as traffic:
        (pod,) = place.pods("cached", "redis")
        place.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
        traffic.more(30)
        place.wait_condition("cached", "CacheReady", "True")
        traffic.more(9)
    expect_no_failure(traffic.record)


def test_redis_hangs(place):
    _begin(place)
    with place.traffic("cached") as traffic:
        (pod,) = place.pods("cached", "redis")
        _stop(pod)
        traffic.more(60)
        place.wait_condition("cached", "CacheReady", "False")
        # The liveness probe gives it a minute, the kubelet half of one to end by itself.
        wait_for("a restart", lambda: _restarts(place) == 1, seconds=180)
        place.wait_condition("cached", "CacheReady", "True")
        traffic.more(9)
    expect_no_failure(traffic.record)
    assert place.pod_names("cached", "redis") == {pod["metadata"]["name"]}
    _expect_hits(place, "cached")


def test_the_password_is_rotated(place):
    _begin(place)
    with place.traffic("cached") as traffic:
        before, runtime = place.pod_names("cached", "redis"), place.pod_names("cached")
        password = base64.b64encode(b"another p@ss/w?rd#1%2F:+ &").decode()
        patch = yaml.safe_dump({"data": {"password": password}})
        place.kubectl("patch", "secret", "cached-redis", "--patch", patch)
        wait_for("a new Redis", lambda: not before & place.pod_names("cached", "redis"))
        place.wait_ready("cached")
        place.wait_condition("cached", "CacheReady", "True")
        traffic.more(20)
    expect_no_failure(traffic.record)
    assert place.pod_names("cached") == runtime
    _expect_hits(place, "cached")


def test_an_external_redis(place):
    place.apply(HERE / "external.yaml", IMAGE=place.images.redis)
    place.kubectl("rollout", "status", "deployment/store", "--timeout=60s")
    place.apply(HERE / "external-service.yaml")
    place.wait_ready("outside")
    _expect_hits(place, "outside")
    assert place.pods("outside", "redis") == []
    said = place.kubectl("exec", "deployment/store", "--", "redis-cli", "-a", "p@ss/w:rd", "dbsize")
    assert int(said.split()[-1]) > 0
