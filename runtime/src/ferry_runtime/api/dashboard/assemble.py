"""Puts the dashboard's document together from what the server measures anyway."""

from __future__ import annotations

import secrets
import socket
import time
from collections import Counter as Counts
from collections.abc import Iterable

import msgspec
from prometheus_client import Histogram, Metric

from ferry_runtime.api.dashboard.document import BatchSizes, Document, Live, Replica, ServiceState, Totals
from ferry_runtime.api.routes.health import engine_health
from ferry_runtime.api.services import Services
from ferry_runtime.api.version import VERSION
from ferry_runtime.errors import EngineNotReady
from ferry_runtime.windows import Spread

RECENT = 50  # requests in a document
PREVIEW = 100  # characters of a prompt in it


class Assembler:
    """One per server."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._replica = Replica(
            id=secrets.token_hex(6), name=socket.gethostname(), started=time.time(), version=VERSION
        )

    def document(self) -> Document:
        services, metrics = self._services, self._services.metrics
        cache = services.cache()
        live = self._live()
        metrics.timeline.level(live.running, live.waiting)
        return Document(
            now=time.time(),
            uptime_seconds=round(time.time() - self._replica.started, 1),
            replica=self._replica,
            service=self._state(),
            live=live,
            totals=self._totals(),
            latency=services.summary.latencies.spread(),
            first_token=_milliseconds(metrics.first_tokens.spread()),
            batch=_batch_sizes(metrics.batch, metrics.mean_batch_size),
            cache=cache.stats() if cache is not None else None,
            timeline=metrics.timeline.columns(),
            recent=[
                msgspec.structs.replace(request, prompt=_shortened(request.prompt))
                for request in services.recent.latest(RECENT)
            ],
            compared=cache.compared() if cache is not None else [],
        )

    def _state(self) -> ServiceState:
        services = self._services
        config, lifecycle = services.config(), services.lifecycle
        batching, queue, cache = config.cold.batching, config.hot.queue, config.hot.cache
        return ServiceState(
            model=services.model_name,
            chat=self._chats(),
            state=lifecycle.phase,
            ready=lifecycle.ready,
            reason=lifecycle.reason,
            engine=engine_health(services),
            max_batch_size=batching.max_batch_size,
            max_wait_ms=round(batching.max_wait_seconds * 1000, 1),
            batching_mode=batching.mode.value,
            queue_max_requests=queue.max_requests,
            queue_max_tokens=queue.max_tokens,
            cache_enabled=cache.enabled,
            similarity_threshold=cache.similarity_threshold,
            verifier=cache.verifier.value,
            cache_ttl_seconds=cache.ttl_seconds,
            store=dict(services.store_status()),
        )

    def _chats(self) -> bool:
        try:
            return self._services.text().chat_template is not None
        except EngineNotReady:
            return False

    def _live(self) -> Live:
        services, stats = self._services, self._services.backend.stats
        waiting, tokens = services.metrics.queue()
        return Live(
            running=stats.running,
            slots=engine_health(services).slots or services.config().cold.batching.max_batch_size,
            waiting=waiting,
            waiting_tokens=tokens,
            kv_used=stats.kv_blocks_used,
            kv_total=stats.kv_blocks_total,
            engine_steps=stats.steps,
            step_ms=round(stats.step_seconds * 1000, 2),
            prefix_reused_tokens=stats.reused_tokens,
        )

    def _totals(self) -> Totals:
        metrics = self._services.metrics
        return Totals(
            requests=_by(metrics.outcomes.collect(), "outcome"),
            answers=_by(metrics.answers.collect(), "outcome"),
            rejected=_by(metrics.rejected.collect(), "reason"),
            client_errors=sum(
                count for status, count in self._answered().items() if status[0] == "4" and status != "429"
            ),
            prompt_tokens=sum(_by(metrics.prompt_tokens.collect(), "tenant").values()),
            generated_tokens=sum(_by(metrics.generation_tokens.collect(), "tenant").values()),
            saved_tokens=_by(metrics.saved_tokens.collect(), "outcome"),
        )

    def _answered(self) -> dict[str, int]:
        """HTTP requests by status."""
        requests = self._services.registry.restricted_registry(["ferry_http_requests_total"])
        return _by(requests.collect(), "status")


def _by(families: Iterable[Metric], label: str) -> dict[str, int]:
    """A counter's values, added up over all labels but one."""
    found: Counts[str] = Counts()
    for family in families:
        for sample in family.samples:
            if sample.name.endswith("_total"):
                found[sample.labels[label]] += int(sample.value)
    return dict(found)


def _batch_sizes(histogram: Histogram, mean: float) -> BatchSizes:
    cumulated = [
        (float(sample.labels["le"]), int(sample.value))
        for family in histogram.collect()
        for sample in family.samples
        if sample.name.endswith("_bucket")
    ]
    before = [0, *(count for _, count in cumulated[:-1])]
    return BatchSizes(
        mean=mean,
        bounds=[0.0 if bound == float("inf") else bound for bound, _ in cumulated],
        steps=[count - less for (_, count), less in zip(cumulated, before, strict=True)],
    )


def _milliseconds(seconds: Spread) -> Spread:
    return Spread(
        count=seconds.count,
        mean=seconds.mean * 1000,
        p50=seconds.p50 * 1000,
        p95=seconds.p95 * 1000,
        p99=seconds.p99 * 1000,
    )


def _shortened(text: str) -> str:
    return text if len(text) <= PREVIEW else text[: PREVIEW - 1] + "…"
