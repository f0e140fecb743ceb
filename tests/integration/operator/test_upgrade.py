"""A new release of the operator, with another default image, finds what an older one made."""

from __future__ import annotations

import pytest
from tests.integration.operator.audit import writes
from tests.integration.operator.cluster import wait_for

pytestmark = pytest.mark.usefixtures("alone")
_RECONCILES = "ferry_operator_reconcile_duration_seconds_count"
_NEXT = {"FERRY_RUNTIME_IMAGE": "example.com/runtime:next", "FERRY_REDIS_IMAGE": "example.com/redis:next"}


def upgrade(ferry, **more):
    ferry.process.environment.update(_NEXT, **more)
    ferry.restart().wait_leading()
    wait_for("a reconcile", lambda: ferry.metric(_RECONCILES) >= 1)


def image_of(chat):
    return chat.template()["spec"]["containers"][0]["image"]


def test_an_upgrade_rolls_nothing_and_the_next_reload_of_weights_takes_the_new_image(plane, ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    chat.wait("CacheReady", "True")
    image, replica_sets = image_of(chat), len(chat.all("replicasets"))
    position = plane.audit_position()
    upgrade(ferry)
    chat.apply(cache={"ttl": "2h"})
    chat.wait("Ready", "True")
    assert len(chat.all("replicasets")) == replica_sets
    assert [w for w in writes(plane, position, chat.namespace) if w[1] == "deployments"] == []
    assert chat.get()["status"]["image"] == image_of(chat) == image
    chat.apply(cache={"ttl": "2h"}, batching={"maxBatchSize": 3})
    chat.wait("Ready", "True")
    assert chat.get()["status"]["image"] == image_of(chat) == _NEXT["FERRY_RUNTIME_IMAGE"]
    assert len(chat.all("replicasets")) == replica_sets + 1


def test_an_upgrade_rolls_at_once_where_the_chart_says_so(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    upgrade(ferry, FERRY_RUNTIME_ROLLOUT="Immediate")
    wait_for("the new image", lambda: image_of(chat) == _NEXT["FERRY_RUNTIME_IMAGE"])
    chat.wait("Ready", "True")
    assert len(chat.revisions()) == 2


def test_an_image_of_the_users_is_no_upgrades_business(ferry, service):
    chat = service(engine={"image": "mine:1"})
    chat.wait("Ready", "True")
    upgrade(ferry, FERRY_RUNTIME_ROLLOUT="Immediate")
    chat.apply(engine={"image": "mine:1"}, batching={"maxBatchSize": 3})
    chat.wait("Ready", "True")
    assert image_of(chat) == "mine:1"
