"""What one replica has answered the other remembers; what one namespace has answered, no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from e2e.harness.cluster import wait_for
from e2e.harness.place import Place

HERE = Path(__file__).parent
_QUESTION = "How deep is the Elbe at Hamburg?"


@pytest.fixture
def other_place(place):
    made = replace(place, namespace=f"{place.namespace}-other")
    made.make()
    yield made
    made.remove()


def test_two_replicas_share_the_cache(place):
    place.apply(HERE / "service.yaml")
    place.wait_ready("twins")
    place.wait_condition("twins", "CacheReady", "True")
    first, second = (f"http://{pod['status']['podIP']}:8000" for pod in place.pods("twins"))
    asked = place.chat("twins", _QUESTION, url=first)
    assert asked.cache == "miss"
    again = wait_for(
        "the other replica to know it",
        lambda: (found := place.chat("twins", _QUESTION, url=second)).cache == "exact" and found,
    )
    assert again.made_by == asked.made_by


def test_two_namespaces_share_nothing(place: Place, other_place: Place):
    for each in (place, other_place):
        each.apply(HERE / "service.yaml")
    for each in (place, other_place):
        each.wait_ready("twins")
    here = place.chat("twins", _QUESTION)
    there = other_place.chat("twins", _QUESTION)
    assert (here.cache, there.cache) == ("miss", "miss")
    assert here.made_by in place.pod_names("twins")
    assert there.made_by in other_place.pod_names("twins")
