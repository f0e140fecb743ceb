"""Pods that are deleted, killed or evicted while they serve."""

from __future__ import annotations

from pathlib import Path

from e2e.harness.cluster import wait_for
from e2e.harness.place import expect_no_failure

HERE = Path(__file__).parent
_SECONDS_TO_NOTICE = 15.0


def _begin(place):
    place.apply(HERE / "service.yaml")
    place.wait_ready("pair")
    return sorted(place.pod_names("pair"))


def test_a_deleted_pod_finishes_first(place):
    first, _ = _begin(place)
    with place.traffic("pair", "--clients", "2") as traffic:
        place.kubectl("delete", "pod", first)
        place.wait_ready("pair")
        traffic.more(20)
    expect_no_failure(traffic.record)


def test_a_killed_pod_costs_what_it_was_doing_and_no_more(place):
    first, _ = _begin(place)
    with place.traffic("pair") as traffic:
        place.kubectl("delete", "pod", first, "--grace-period=0", "--force")
        wait_for("two pods again", lambda: len(place.pods("pair")) == 2)
        place.wait_ready("pair")
        traffic.more(30)
    record = traffic.record
    ends = [outcome.at for outcome in record.failures]
    assert not ends or max(ends) - min(ends) < _SECONDS_TO_NOTICE, record.causes
    assert not any(outcome.status > 500 for outcome in record.outcomes), record.causes


def test_a_node_is_drained(place):
    _begin(place)
    control_plane, worker = place.cluster.nodes[0], place.cluster.nodes[-1]
    with place.traffic("pair", node=control_plane) as traffic:
        try:
            drain = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=180s")
            place.kubectl("drain", worker, *drain, seconds=200)
            place.wait_ready("pair")
            assert {pod["spec"]["nodeName"] for pod in place.pods("pair")} == {control_plane}
            traffic.more(20)
        finally:
            place.kubectl("uncordon", worker)
    expect_no_failure(traffic.record)
