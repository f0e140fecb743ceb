"""A revision that cannot run: the old pods go on, status tells why, the next good revision heals it."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.harness.place import expect_no_failure

HERE = Path(__file__).parent
_LIMITS = {"requests": {"cpu": "50m", "memory": "16Mi"}}


@pytest.mark.parametrize(
    ("broken", "healed", "reasons", "words"),
    [
        pytest.param(
            {"engine": {"image": "ferry-e2e/none:0"}},
            {"engine": {"image": None}},
            ("ImagePullBackOff", "ErrImagePull"),
            "ferry-e2e/none:0",
            id="image",
        ),
        pytest.param(
            {"model": {"source": "file:///opt/e2e/models/nowhere"}},
            {"model": {"source": "file:///opt/e2e/models/model-b"}},
            ("CrashLoopBackOff", "ContainerFailed"),
            "there is no directory",
            id="model",
        ),
        pytest.param(
            {"nodeSelector": {"e2e/nowhere": "yes"}},
            {"nodeSelector": None},
            ("Unschedulable",),
            "node",
            id="unschedulable",
        ),
        pytest.param(
            {"resources": {**_LIMITS, "limits": {"memory": "40Mi"}}},
            {"resources": {**_LIMITS, "limits": {"memory": "1Gi"}}},
            ("OOMKilled",),
            "memory",
            id="memory",
        ),
    ],
)
def test_a_broken_revision_is_told_and_healed(place, broken, healed, reasons, words):
    place.apply(HERE / "service.yaml")
    place.wait_ready("chat")
    with place.traffic("chat") as traffic:
        place.patch("chat", broken)
        assert words in place.wait_trouble("chat", *reasons)
        assert place.condition("chat", "Available")["status"] == "True"
        traffic.more(20)
        place.patch("chat", healed)
        place.note("healed", place.wait_ready("chat"))
        traffic.more(9)
    expect_no_failure(traffic.record)
