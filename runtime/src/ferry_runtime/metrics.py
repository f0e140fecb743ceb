"""What the runtime measures: Prometheus metrics in vLLM's vocabulary with the prefix ``ferry_``.

Label values come from closed sets (enums, route templates, the configured tenants), never from a
client's text. Source of the names: https://docs.vllm.ai/en/stable/usage/metrics/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import psutil
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from ferry_runtime.engine.protocol import Backend, Delta, EngineStats
from ferry_runtime.generation import HITS, CacheOutcome
from ferry_runtime.timeline import Timeline
from ferry_runtime.windows import Window

if TYPE_CHECKING:
    from ferry_runtime.scheduling.admission import RejectReason
    from ferry_runtime.scheduling.core import SchedulerCore
    from ferry_runtime.scheduling.job import Job

# Tenants come from the operator's key file; should it hold thousands, the rest share one label.
_MOST_TENANTS = 64
_OTHER_TENANTS = "other"

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160)
_TOKEN_SECONDS = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5)
_TOKENS = (1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
_RATIOS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 16)


class Outcome(StrEnum):
    """How a request ended; every request ends in exactly one of them."""

    SUCCESS = "success"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    REJECTED = "rejected"
    ERROR = "error"


class Metrics:
    """One per server, with a registry of its own. Other parts may register collectors there."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # resident memory, processor time, file descriptors
        self.timeline = Timeline()
        self.first_tokens = Window()  # seconds from arrival to first token, of the latest sequences
        self._steps = self._rows = self._seen_step = 0
        # Requests that wait, and what they are expected to cost in tokens.
        self.queue: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._tenants: set[str] = set()
        self._define_counters()
        self._define_histograms()

    def _define_counters(self) -> None:
        self.outcomes = self._counter("requests", "Requests by how they ended", "route", "outcome")
        self._success = self._counter(
            "request_success",
            "Requests answered in full, by finish reason of the first choice",
            "finished_reason",
        )
        self.rejected = self._counter("requests_rejected", "Requests refused, by reason", "reason")
        self.answers = self._counter("cache_answers", "Answers by where they came from", "outcome")
        self.saved_tokens = self._counter(
            "cache_saved_tokens",
            "Tokens of answers that were not generated, by where they came from",
            "outcome",
        )
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens of admitted requests", "tenant")
        self.generation_tokens = self._counter("generation_tokens", "Generated tokens", "tenant")

    def _define_histograms(self) -> None:
        self.ttft = self._histogram("time_to_first_token_seconds", "From arrival to first token", _SECONDS)
        self._itl = self._histogram(
            "inter_token_latency_seconds", "Between tokens of a sequence", _TOKEN_SECONDS
        )
        self.e2e = self._histogram("e2e_request_latency_seconds", "From arrival to the end", _SECONDS)
        self._queue_time = self._histogram(
            "request_queue_time_seconds", "From arrival to a slot", _SECONDS, "priority"
        )
        self._prompt_size = self._histogram("request_prompt_tokens", "Prompt tokens per request", _TOKENS)
        self._answer_size = self._histogram("request_generation_tokens", "Tokens per sequence", _TOKENS)
        self.batch = self._histogram("batch_size", "Rows per decode step", _ROWS)
        self._cost_error = self._histogram(
            "cost_estimate_ratio", "Generated tokens over those that were expected", _RATIOS
        )

    # The scheduler's observer.

    def refused(self, reason: RejectReason) -> None:
        self.rejected.labels(reason.value).inc()
        self.timeline.refused()

    def started(self, job: Job, waited: float) -> None:
        self._queue_time.labels(priority_class(job.priority)).observe(waited)
        self.prompt_tokens.labels(self._tenant(job.tenant)).inc(job.prompt_tokens)
        self._prompt_size.observe(job.prompt_tokens)

    def generated(self, job: Job, delta: Delta, since_last: float | None, since_arrival: float) -> None:
        """Tokens as they come: those of an answer that is given up were computed too."""
        if since_last is None:
            self.ttft.observe(since_arrival)
            self.first_tokens.add(since_arrival)
            self.timeline.first_token(since_arrival)
        else:
            self._itl.observe(since_last / len(delta.token_ids))
        self.generation_tokens.labels(self._tenant(job.tenant)).inc(len(delta.token_ids))
        self.timeline.generated(len(delta.token_ids))

    def sequence_ended(self, job: Job, generated: int) -> None:
        self._answer_size.observe(generated)
        self._cost_error.observe(generated / max(job.expected_tokens, 1.0))

    # The pipeline, the engine and HTTP.

    def request_ended(
        self,
        route: str,
        outcome: Outcome,
        seconds: float,
        cache: CacheOutcome,
        finish_reason: str | None,
        *,
        tokens: int = 0,
    ) -> None:
        """Once per request. ``route`` is a template, ``tokens`` what the answer holds."""
        self.outcomes.labels(route, outcome.value).inc()
        if outcome is not Outcome.SUCCESS:
            if outcome is not Outcome.REJECTED:
                self.timeline.unanswered()
            return
        self._success.labels(finish_reason or "none").inc()
        self.e2e.observe(seconds)
        self.answers.labels(cache.value).inc()
        self.timeline.answered(cache, seconds)
        if cache in HITS:
            self.saved_tokens.labels(cache.value).inc(tokens)

    def stepped(self, stats: EngineStats) -> None:
        """Statistics after a step, or of an engine that has none to do; the same step counts once."""
        self.timeline.level(stats.running, self.queue()[0])
        if stats.steps == self._seen_step:
            return
        self._seen_step = stats.steps
        if stats.decode_rows:
            self.batch.observe(stats.decode_rows)
            self._steps += 1
            self._rows += stats.decode_rows
            self.timeline.stepped(stats.decode_rows)

    def watch(self, core: SchedulerCore, backend: Backend) -> None:
        """Read queue and engine whenever metrics are asked for."""
        self.queue = lambda: (core.waiting, int(core.waiting_tokens))
        self.registry.register(_Live(core, backend))

    def render(self) -> bytes:
        """The Prometheus text format, version 0.0.4."""
        return generate_latest(self.registry)

    @property
    def mean_batch_size(self) -> float:
        """Rows per decode step, over every step so far that decoded."""
        return self._rows / self._steps if self._steps else 0.0

    def _tenant(self, tenant: str) -> str:
        if tenant in self._tenants:
            return tenant
        if len(self._tenants) >= _MOST_TENANTS:
            return _OTHER_TENANTS
        self._tenants.add(tenant)
        return tenant

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"ferry_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"ferry_{name}", text, labels, buckets=buckets, registry=self.registry)


def priority_class(priority: int) -> str:
    """Three label values for all integers."""
    if priority == 0:
        return "default"
    return "urgent" if priority < 0 else "low"


@runtime_checkable
class Supervised(Protocol):
    """A backend whose engine is a process of its own."""

    @property
    def heartbeat_age(self) -> float: ...

    @property
    def restarts(self) -> int: ...


class _Live(Collector):
    """What is true at the moment of the scrape."""

    def __init__(self, core: SchedulerCore, backend: Backend) -> None:
        self._core = core
        self._backend = backend

    def collect(self) -> Iterable[Metric]:
        core, stats = self._core, self._backend.stats
        yield _gauge("num_requests_running", "Sequences in the engine's slots", stats.running)
        yield _gauge("num_requests_waiting", "Requests that wait for a slot", core.waiting)
        yield _gauge("queued_tokens", "Estimated cost of the waiting requests in tokens", core.waiting_tokens)
        yield _gauge("queue_max_requests", "Requests that may wait", core.limits.max_requests)
        yield _gauge("queue_max_tokens", "Estimated cost that may wait, in tokens", core.limits.max_tokens)
        yield _gauge("engine_slots", "Sequences that the engine decodes at once", core.shape.slots)
        yield _gauge("kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1", _share(stats))
        yield _counter("num_preemptions", "Running sequences that were paused", stats.preemptions)
        yield _counter("prefill_tokens", "Prompt tokens computed", stats.prefill_tokens)
        yield _counter("prefix_reused_tokens", "Prompt tokens taken from saved prefixes", stats.reused_tokens)
        yield _counter("engine_steps", "Steps of the engine", stats.steps)
        if isinstance(self._backend, Supervised):
            age, restarts = self._backend.heartbeat_age, self._backend.restarts
            yield _gauge("engine_heartbeat_age_seconds", "Since the engine process last spoke", age)
            yield _counter("engine_restarts", "Times that the engine process was started again", restarts)
        pid = getattr(self._backend, "pid", None)
        if pid is not None:
            yield _gauge("engine_resident_memory_bytes", "Memory of the engine process", _resident(pid))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"ferry_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"ferry_{name}", text, value=value)


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:  # it ended between the question and the answer
        return 0


def _share(stats: EngineStats) -> float:
    return stats.kv_blocks_used / stats.kv_blocks_total if stats.kv_blocks_total else 0.0
