"""The only device is taken by the pod that is to be replaced: the update must not wait for ever."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def device(release) -> Iterator[str]:
    """One node advertises one GPU, as a device plugin would; returns its name."""
    node = release.cluster.nodes[-1]

    def patch(**operation: str) -> None:
        words = ("patch", "node", node, "--subresource=status", "--type=json", "--patch")
        paths = [f"/status/{amounts}/nvidia.com~1gpu" for amounts in ("capacity", "allocatable")]
        release.cluster.kubectl(*words, json.dumps([{**operation, "path": path} for path in paths]))

    patch(op="add", value="1")
    yield node
    patch(op="remove")


def test_the_only_gpu_is_handed_on(place, device):
    place.apply(HERE / "service.yaml")
    place.wait_ready("devices")
    (before,) = place.pods("devices")
    assert before["spec"]["nodeName"] == device
    place.patch("devices", {"batching": {"maxBatchSize": 2}})
    place.note("update", place.wait_ready("devices"))
    (after,) = place.pods("devices")
    assert after["metadata"]["name"] != before["metadata"]["name"]
    assert place.first_answer("devices", "Are you there?").status == 200


def test_a_second_service_is_told_why_it_waits(place, device):
    place.apply(HERE / "service.yaml")
    place.wait_ready("devices")
    text = (HERE / "service.yaml").read_text().replace("name: devices", "name: second")
    place.kubectl("apply", "--filename", "-", text=text)
    assert "nvidia.com/gpu" in place.wait_trouble("second", "Unschedulable")
    place.kubectl("delete", "infsvc", "devices", "--timeout=60s")
    place.wait_ready("second")
