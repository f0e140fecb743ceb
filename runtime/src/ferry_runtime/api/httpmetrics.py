"""Prometheus metrics of the HTTP side. Labels come from closed sets: no client can add a series."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class HttpMetrics:
    """``ready``: what /readyz answers."""

    def __init__(self, registry: CollectorRegistry, ready: Callable[[], bool]) -> None:
        self._requests = Counter(
            "ferry_http_requests",
            "HTTP requests answered, by route template.",
            ("route", "method", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "ferry_http_request_duration_seconds",
            "Seconds from a request's head to the last byte of its answer.",
            ("route",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._open = Gauge("ferry_http_requests_open", "HTTP requests being served.", registry=registry)
        Gauge("ferry_ready", "1 while /readyz answers 200.", registry=registry).set_function(ready)

    def opened(self) -> None:
        self._open.inc()

    def closed(self, route: str, method: str, status: int, seconds: float) -> None:
        """``status`` 0 means that the client left before an answer began."""
        self._open.dec()
        label = method if method in _METHODS else "other"
        self._requests.labels(route, label, str(status) if status else "disconnected").inc()
        self._seconds.labels(route).observe(seconds)
