"""Model, batch size and wait time take effect with new pods; the threshold without a restart."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.harness.cluster import wait_for
from e2e.harness.place import SETTLED_SECONDS, expect_no_failure

HERE = Path(__file__).parent


def _health(place):
    return place.ask(place.url("tuned"), "/health").body


def _cold(place):
    """The configuration that the one pod has mounted."""
    (pod,) = place.pods("tuned")
    folder = "/etc/ferry/cold/config.json"
    return json.loads(place.kubectl("exec", pod["metadata"]["name"], "--", "cat", folder))["cold"]


def test_each_of_the_four_fields_takes_effect(place):
    place.apply(HERE / "service.yaml")
    place.wait_ready("tuned")
    with place.traffic("tuned") as traffic:
        place.patch("tuned", {"model": {"source": "file:///opt/e2e/models/model-b"}})
        place.wait_ready("tuned")
        wait_for(
            "the model",
            lambda: place.chat("tuned", "Which model?").text.startswith("model-b "),
            SETTLED_SECONDS,
        )

        place.patch("tuned", {"batching": {"maxBatchSize": 2}})
        place.wait_ready("tuned")
        wait_for("the batch size", lambda: _health(place)["engine"]["slots"] == 2, SETTLED_SECONDS)

        place.patch("tuned", {"batching": {"maxWait": "80ms"}})
        place.wait_ready("tuned")
        assert _cold(place)["batching"]["maxWaitSeconds"] == 0.08

        before = place.pod_names("tuned")
        place.patch("tuned", {"cache": {"similarityThreshold": 0.93}})
        wanted = place.service("tuned")["metadata"]["generation"]
        # The kubelet brings a changed ConfigMap to the pod within about a minute.
        wait_for("the new threshold", lambda: _health(place)["generation"] == wanted, 150)
        assert place.pod_names("tuned") == before
        traffic.more(9)
    expect_no_failure(traffic.record)
    assert {words.split()[0] for words in traffic.record.answers()} == {"model-a", "model-b"}
