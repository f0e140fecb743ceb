"""What the operator tells Prometheus about itself.

Label values come from closed sets: kinds, verbs, status codes.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """One registry's worth of instruments; the process has one, each test its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconcile_seconds = Histogram(
            "ferry_operator_reconcile_duration_seconds",
            "Time of one reconcile of one InferenceService.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.reconcile_errors = Counter(
            "ferry_operator_reconcile_errors",
            "Reconciles that will be repeated, by what stopped them.",
            ["reason"],
            registry=self.registry,
        )
        self.queue_depth = Gauge(
            "ferry_operator_queue_depth",
            "InferenceServices waiting for a reconcile.",
            registry=self.registry,
        )
        self.queue_seconds = Histogram(
            "ferry_operator_queue_duration_seconds",
            "Time between an event and the start of its reconcile.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.api_calls = Counter(
            "ferry_operator_api_calls",
            "Calls to the API server; code 0 is a call without an answer.",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self.watch_age = Gauge(
            "ferry_operator_watch_age_seconds",
            "Time since the stalest watch last received anything, bookmarks included.",
            registry=self.registry,
        )
        self.leader = Gauge(
            "ferry_operator_leader", "1 while this process holds the Lease.", registry=self.registry
        )
        self.services = Gauge(
            "ferry_operator_inferenceservices", "InferenceServices in scope.", registry=self.registry
        )
        self.closed_namespaces = Gauge(
            "ferry_operator_closed_namespaces",
            "Namespaces of the scope that may not be read: gone, or without the operator's Role.",
            registry=self.registry,
        )

        self.unscaled = Gauge(
            "ferry_operator_scaling_unanswered",
            "InferenceServices of the built-in autoscaler of which a ready pod did not tell its load.",
            registry=self.registry,
        )

    def exposition(self) -> bytes:
        """The text format, version 0.0.4."""
        return generate_latest(self.registry)
