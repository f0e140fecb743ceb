"""Every metric family that the runtime and the operator export, read from their own registries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from ferry_operator.metrics import Metrics as OperatorMetrics
from ferry_operator.observing.exported import exported
from ferry_operator.observing.store import Store
from ferry_runtime.api.httpmetrics import HttpMetrics
from ferry_runtime.cache.judging import Verdict
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.engine.fake import FakeBackend
from ferry_runtime.generation import CacheOutcome
from ferry_runtime.metrics import Metrics as RuntimeMetrics
from ferry_runtime.metrics import Outcome
from ferry_runtime.scheduling.admission import QueueLimits, RejectReason
from ferry_runtime.scheduling.core import SchedulerCore
from ferry_runtime.scheduling.shape import BatchShape
from ferry_runtime.scheduling.shaping import FixedShaping

# Label values that the code draws from a closed list: a query that names another one finds nothing.
CLOSED: Mapping[tuple[str, str], frozenset[str]] = {
    ("ferry_requests", "outcome"): frozenset(Outcome),
    ("ferry_requests_rejected", "reason"): frozenset(RejectReason),
    ("ferry_cache_answers", "outcome"): frozenset(CacheOutcome),
    ("ferry_cache_lookups", "outcome"): frozenset({"hit", "miss"}),
    ("ferry_cache_lookups", "tier"): frozenset({"exact_local", "exact", "semantic"}),
    ("ferry_cache_shadow_verdicts", "verdict"): frozenset(Verdict),
    ("ferry_cache_shadow_wrong_rate", "bound"): frozenset({"low", "high"}),
}


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family. ``name`` is without the suffixes of its series."""

    name: str
    kind: str  # counter | gauge | histogram
    text: str
    labels: tuple[str, ...]

    @property
    def series(self) -> tuple[str, ...]:
        """Names as queries write them, the one to show first."""
        match self.kind:
            case "counter":
                return (f"{self.name}_total",)
            case "histogram":
                return (f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count")
            case _:
                return (self.name,)


class _Engine(FakeBackend):
    """The double, with the process that a real engine has."""

    pid = os.getpid()


def runtime_families() -> dict[str, Family]:
    """By name, of a runtime with an engine process and a cache."""
    metrics = RuntimeMetrics()
    shape = FixedShaping(BatchShape(slots=8, batch=8, max_wait=0.05))
    metrics.watch(SchedulerCore(QueueLimits(), shape), _Engine())
    CacheMetrics(metrics.registry)
    HttpMetrics(metrics.registry, lambda: True)
    return _families(metrics.registry)


def operator_families() -> dict[str, Family]:
    """By name, of an operator that looks after one InferenceService."""
    metrics, store = OperatorMetrics(), Store()
    store.put_resource(
        {
            "metadata": {"namespace": "models", "name": "chat", "resourceVersion": "1"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
    )
    with exported(store, metrics.registry):
        return _families(metrics.registry)


def _families(registry: CollectorRegistry) -> dict[str, Family]:
    # prometheus-client tells a registry's collectors to nobody: a metric with labels but without a
    # sample yet has no other public trace of its labels.
    collectors: Iterable[Collector] = registry._collector_to_names
    found = [family for collector in collectors for family in _of(collector)]
    return {family.name: family for family in sorted(found, key=lambda family: family.name)}


def _of(collector: Collector) -> Iterable[Family]:
    for metric in collector.collect():
        if isinstance(collector, MetricWrapperBase):
            labels = tuple(collector._labelnames)
        else:
            labels = tuple(dict.fromkeys(label for sample in metric.samples for label in sample.labels))
        yield Family(metric.name, metric.type, metric.documentation, labels)
