"""The operator is killed in the middle, upgraded and uninstalled: what it made goes on serving."""

from __future__ import annotations

from pathlib import Path

from e2e.harness import docker
from e2e.harness.cluster import wait_for
from e2e.harness.place import expect_no_failure
from e2e.harness.release import NAMESPACE

HERE = Path(__file__).parent


def reconciled(place):
    """The operator that runs now has looked at the service: a change is carried out that needs no new pod."""
    place.patch("steady", {"batching": {"queue": {"timeout": "47s"}}})
    place.wait_ready("steady")


def test_the_charts_own_test_passes(release):
    release.cluster.helm("test", release.name, "--namespace", NAMESPACE)


def test_killed_in_the_middle_of_a_rollout(place, release):
    place.apply(HERE / "service.yaml")
    place.wait_ready("steady")
    with place.traffic("steady") as traffic:
        place.patch("steady", {"batching": {"maxBatchSize": 2}})
        (pod,) = release.operator_pods()
        place.cluster.kubectl("delete", "pod", pod, "--namespace", NAMESPACE, "--grace-period=0", "--force")
        place.note("rolled out all the same", place.wait_ready("steady"))
        traffic.more(9)
    expect_no_failure(traffic.record)


def test_an_upgrade_restarts_no_service(place, release):
    place.apply(HERE / "service.yaml")
    place.wait_ready("steady")
    newer = release.images.fake.rpartition(":")[0] + ":newer"
    docker.tag(release.images.fake, newer)
    place.cluster.load(newer)
    before = place.pod_names("steady")
    with place.traffic("steady") as traffic:
        operators = set(release.operator_pods())
        release.install(**{"runtime.image": newer, "logLevel": "DEBUG"})
        wait_for("the former operator to be gone", lambda: not operators & set(release.operator_pods()))
        reconciled(place)
        assert place.pod_names("steady") == before
        # With the next change that loads the weights anyway, the new image comes.
        place.patch("steady", {"batching": {"maxBatchSize": 2}})
        place.wait_ready("steady")
        assert {pod["spec"]["containers"][0]["image"] for pod in place.pods("steady")} == {newer}
        place.cluster.helm("rollback", release.name, "--namespace", NAMESPACE, "--wait")
        traffic.more(9)
    expect_no_failure(traffic.record)


def test_services_outlive_an_uninstalled_release(place, release):
    place.apply(HERE / "service.yaml")
    place.wait_ready("steady")
    with place.traffic("steady") as traffic:
        before = place.pod_names("steady")
        release.uninstall()
        try:
            wait_for("the operator to be gone", lambda: not release.operator_pods())
            assert place.service("steady")["metadata"]["name"] == "steady"
            traffic.more(20)
        finally:
            release.install()
        reconciled(place)
        assert place.pod_names("steady") == before
    expect_no_failure(traffic.record)
