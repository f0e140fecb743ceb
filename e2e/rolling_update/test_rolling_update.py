"""Pods are replaced, by a change or by `kubectl rollout restart`; no request notices."""

from __future__ import annotations

from pathlib import Path

from e2e.harness.place import expect_no_failure

HERE = Path(__file__).parent


def test_two_replicas_are_updated(place):
    place.apply(HERE / "service.yaml")
    place.wait_ready("pair")
    before = place.pod_names("pair")
    with place.traffic("pair", "--clients", "2") as traffic:
        place.note("update", _update(place))
        traffic.more(20)
    assert not before & place.pod_names("pair")
    expect_no_failure(traffic.record)


def _update(place):
    place.patch("pair", {"batching": {"maxBatchSize": 8}})
    return place.wait_ready("pair")


def test_rollout_restart_is_not_fought(place):
    place.apply(HERE / "service.yaml")
    place.wait_ready("pair")
    before = place.pod_names("pair")
    with place.traffic("pair") as traffic:
        place.kubectl("rollout", "restart", "deployment/pair-runtime")
        place.kubectl("rollout", "status", "deployment/pair-runtime", "--timeout=120s", seconds=150)
        place.wait_ready("pair")
        traffic.more(9)
    after = place.pod_names("pair")
    assert len(after) == 2
    assert not before & after
    expect_no_failure(traffic.record)
