"""`kubectl scale` up and down while requests run: what goes away finishes its work first."""

from __future__ import annotations

from pathlib import Path

from e2e.harness.cluster import wait_for
from e2e.harness.place import expect_no_failure

HERE = Path(__file__).parent


def test_one_to_three_and_back(place):
    place.apply(HERE / "service.yaml")
    place.wait_ready("elastic")
    with place.traffic("elastic", "--clients", "2") as traffic:
        place.kubectl("scale", "infsvc/elastic", "--replicas=3")
        place.note("1 to 3", place.wait_ready("elastic"))
        traffic.until("answers of three pods", lambda record: len(record.answers()) == 3)
        place.kubectl("scale", "infsvc/elastic", "--replicas=1")
        place.note("3 to 1", place.wait_ready("elastic"))
        wait_for("one pod to be left", lambda: len(place.pods("elastic")) == 1)
        traffic.more(30)
    expect_no_failure(traffic.record)


def test_zero_stays_zero(place):
    place.apply(HERE / "service.yaml")
    place.wait_ready("elastic")
    place.kubectl("scale", "infsvc/elastic", "--replicas=0")
    place.wait_trouble("elastic", "ScaledToZero")
    wait_for("no pod to be left", lambda: not place.pods("elastic"))
    place.kubectl("scale", "infsvc/elastic", "--replicas=1")
    place.wait_ready("elastic")
