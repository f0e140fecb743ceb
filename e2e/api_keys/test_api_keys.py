"""Keys come from a Secret, and another one counts without a restart."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from e2e.harness.cluster import wait_for

HERE = Path(__file__).parent


def _entry(key: str, tenant: str) -> str:
    return json.dumps({"sha256": hashlib.sha256(key.encode()).hexdigest(), "tenant": tenant})


def _ask(place, key: str):
    return place.chat("locked", "What is the capital of France?", Authorization=f"Bearer {key}")


def test_keys_open_the_service_each_for_its_tenant(place):
    place.kubectl("create", "secret", "generic", "keys", f"--from-literal=first={_entry('key-1', 'red')}")
    place.apply(HERE / "service.yaml")
    place.wait_ready("locked")
    assert place.chat("locked", "Is anybody there?").status == 401
    assert _ask(place, "key-2").status == 401
    assert _ask(place, "key-1").cache == "miss"
    wait_for("a hit", lambda: _ask(place, "key-1").cache == "exact")

    before = place.pod_names("locked")
    patch = json.dumps({"stringData": {"second": _entry("key-2", "blue")}})
    place.kubectl("patch", "secret", "keys", "--patch", patch)
    # The kubelet brings a changed Secret to the pod within about a minute.
    answer = wait_for("the second key", lambda: (a := _ask(place, "key-2")).status == 200 and a, 150, 2)
    assert answer.cache == "miss"
    assert place.pod_names("locked") == before
