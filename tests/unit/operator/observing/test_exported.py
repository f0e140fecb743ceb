from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from tests.unit.operator.samples import resource

from ferry_operator.observing.exported import exported
from ferry_operator.observing.store import Store

_LABELS = {"inferenceservice_namespace": "team", "inferenceservice": "chat"}


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def value(store):
    """Of a metric of InferenceService team/chat; None where there is no such series."""
    registry = CollectorRegistry()
    with exported(store, registry):

        def read(name, **labels):
            return registry.get_sample_value(f"ferry_operator_inferenceservice_{name}", {**_LABELS, **labels})

        yield read


def with_status(at=100, **status):
    made = resource(replicas=3)
    made["metadata"]["resourceVersion"] = str(at)
    return {**made, "status": status}


def test_a_services_pods_and_conditions_are_told(store, value):
    conditions = [{"type": "Ready", "status": "False"}, {"type": "Available", "status": "True"}]
    store.put_resource(with_status(readyReplicas=2, conditions=conditions))
    assert value("wanted_replicas") == 3
    assert value("ready_replicas") == 2
    assert value("condition", condition="Ready") == 0
    assert value("condition", condition="Available") == 1


def test_an_unknown_condition_is_not_true(store, value):
    store.put_resource(with_status(conditions=[{"type": "CacheReady", "status": "Unknown"}]))
    assert value("condition", condition="CacheReady") == 0


def test_one_that_nobody_has_reconciled_yet_wants_pods_and_has_none(store, value):
    store.put_resource(resource())
    assert (value("wanted_replicas"), value("ready_replicas")) == (1, 0)
    assert value("condition", condition="Ready") is None


def test_a_suspended_one_wants_no_pods(store, value):
    store.put_resource(resource(replicas=2, suspend=True))
    assert value("wanted_replicas") == 0


def test_what_changes_shows_at_the_next_scrape_and_what_is_gone_is_gone(store, value):
    store.put_resource(with_status(readyReplicas=1))
    store.put_resource(with_status(at=101, readyReplicas=3))
    assert value("ready_replicas") == 3
    store.drop_resource(with_status(at=102))
    assert value("ready_replicas") is None


def test_a_new_life_of_the_process_tells_of_its_own_store(store):
    registry = CollectorRegistry()
    for _ in range(2):
        with exported(store, registry):
            pass
    assert list(registry.collect()) == []
