"""Each InferenceService as Prometheus sees it: what it wants, what serves, what its conditions say.

Read from the store at the moment of the scrape, so that a service that is gone leaves no series behind.
The label names differ from `namespace` and `service`, which Prometheus gives to the operator's own target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ferry_operator.observing.store import Resource, Store

_LABELS = ("inferenceservice_namespace", "inferenceservice")


class ServiceGauges(Collector):
    """Leader and standby tell the same: take the maximum over both."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterable[Metric]:
        wanted = _gauge("wanted_replicas", "Pods that should serve; 0 where suspended.")
        ready = _gauge("ready_replicas", "Pods that serve.")
        condition = _gauge("condition", "1 where a condition is True, 0 where it is not.", "condition")
        for key in self._store:
            resource = self._store.resource(key)
            if resource is None:
                continue
            status = resource.get("status") or {}
            wanted.add_metric(key, _wanted(resource))
            ready.add_metric(key, status.get("readyReplicas") or 0)
            for found in status.get("conditions") or ():
                condition.add_metric((*key, found["type"]), float(found["status"] == "True"))
        return wanted, ready, condition


@contextmanager
def exported(store: Store, registry: CollectorRegistry) -> Iterator[None]:
    """While the context is open, ``registry`` tells of the store's services."""
    gauges = ServiceGauges(store)
    registry.register(gauges)
    try:
        yield
    finally:
        registry.unregister(gauges)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"ferry_operator_inferenceservice_{name}", text, labels=(*_LABELS, *labels))


def _wanted(resource: Resource) -> float:
    spec = resource.get("spec") or {}
    return 0.0 if spec.get("suspend") else float(spec.get("replicas", 1))
