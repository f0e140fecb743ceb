"""From `kubectl apply` to the first answer, and from there through an update to deletion."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from e2e.harness import images
from e2e.harness.cluster import wait_for
from e2e.harness.place import expect_no_failure

HERE = Path(__file__).parent


@pytest.mark.smoke
def test_install_answer_update_delete(place):
    began = time.monotonic()
    place.apply(HERE / "service.yaml")
    place.wait_ready("smollm2")
    place.note("apply to Ready", time.monotonic() - began)
    answer = place.first_answer("smollm2", "What is the capital of France?")
    place.note("to the first answer", time.monotonic() - began)
    assert answer.status == 200
    assert answer.text.startswith("model-a smollm2-runtime-")

    with place.traffic("smollm2") as traffic:
        place.patch("smollm2", {"batching": {"maxBatchSize": 2}})
        place.wait_ready("smollm2")
        traffic.more(20)
    expect_no_failure(traffic.record)

    place.kubectl("delete", "infsvc", "smollm2", "--timeout=60s")
    wait_for("its pods to go", lambda: not place.pods("smollm2") and not place.pods("smollm2", "redis"))


def _chown_folder(node: str, folder: str) -> None:
    """A folder of the node that the runtime's user may write to, as a volume's provisioner would make it."""
    for command in (["mkdir", "-p", folder], ["chown", "10001:10001", folder]):
        subprocess.run(["docker", "exec", node, *command], check=True, timeout=30)


@pytest.mark.real_model
def test_real_model_with_and_without_weights_on_the_volume(place):
    node = place.cluster.nodes[-1]
    image = images.runtime()
    place.cluster.load(image, node=node)
    folder = f"/var/{place.namespace}"
    _chown_folder(node, folder)
    place.apply(HERE / "weights.yaml", FOLDER=folder, NODE=node, NAMESPACE=place.namespace)
    for what in ("weights converted first", "weights on the volume"):
        began = time.monotonic()
        place.apply(HERE / "real.yaml", IMAGE=image, NODE=node)
        place.wait_ready("smollm2", 400)
        place.note(f"{what}: apply to Ready", time.monotonic() - began)
        answer = place.first_answer("smollm2", "What is the capital of France?")
        place.note("to the first answer", time.monotonic() - began)
        assert "Paris" in answer.text
        place.kubectl("delete", "infsvc", "smollm2", "--timeout=60s")
        wait_for(
            "its pods to go", lambda: place.kubectl("get", "pods", "--output=name").split() == ["pod/client"]
        )
