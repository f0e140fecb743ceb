"""The cache's counters, in one registry with everybody else's. No prompt text, no tenant names
beyond what the caller configured, every label from a closed list."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.samples import Sample

_FINE = (0.0002, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.12, 0.25, 1.0)


class CacheMetrics:
    """``ferry_cache_*``. Alerts belong on ``ferry_cache_lookups_since_semantic_hit``, which also grows
    where the embedder never loads, and on ``ferry_cache_shadow_wrong_rate``."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        at = registry or CollectorRegistry()
        self.registry = at
        self.lookups = Counter(
            "ferry_cache_lookups", "Lookups by tier and outcome", ["tier", "outcome"], registry=at
        )
        self.bypasses = Counter(
            "ferry_cache_bypasses", "Requests kept out, by reason", ["reason"], registry=at
        )
        self.skips = Counter(
            "ferry_cache_semantic_skips",
            "Lookups without the semantic tier, by reason",
            ["reason"],
            registry=at,
        )
        self.without_hit = Gauge(
            "ferry_cache_lookups_since_semantic_hit",
            "Questions past the exact tier since the last semantic hit, whatever the reason",
            registry=at,
        )
        self.embedder_ready = Gauge(
            "ferry_cache_embedder_ready", "1 once the embedder is loaded, 0 again while it fails", registry=at
        )
        self.rejections = Counter(
            "ferry_cache_rejections",
            "Candidates that the verifier refused, by reason",
            ["reason"],
            registry=at,
        )
        self.near_misses = Counter(
            "ferry_cache_near_misses", "Lookups whose best candidate was refused", registry=at
        )
        self.shadow = Counter(
            "ferry_cache_shadow_verdicts",
            "Served semantic hits beside a fresh answer",
            ["verdict"],
            registry=at,
        )
        self.wrong_rate = Gauge(
            "ferry_cache_shadow_wrong_rate",
            "Share of wrong semantic hits, 95 % bounds",
            ["bound"],
            registry=at,
        )
        self.labels = Counter(
            "ferry_cache_labels", "Whether an entry's answer fitted a question, by who found it",
            ["source", "verdict"], registry=at,
        )  # fmt: skip
        self.learned = Counter(
            "ferry_cache_learned_decisions",
            "Candidates decided otherwise than by the verifier, by labels of their entry",
            ["verdict"],
            registry=at,
        )
        self.labelled = Gauge(
            "ferry_cache_labelled_entries", "Entries with a threshold of their own", registry=at
        )
        self.feedback = Counter("ferry_cache_feedback", "Verdicts by clients", ["verdict"], registry=at)
        self.coalesced = Counter("ferry_cache_coalesced", "Requests that followed another", registry=at)
        self.waiters = Gauge("ferry_cache_coalesced_waiters", "Requests following now", registry=at)
        self.promotions = Counter("ferry_cache_promotions", "Followers that had to lead", registry=at)
        self.writes = Counter("ferry_cache_writes", "Answers written, by outcome", ["outcome"], registry=at)
        self.store_errors = Counter(
            "ferry_cache_store_errors", "Failures of the shared store, by operation and kind",
            ["operation", "kind"], registry=at,
        )  # fmt: skip
        self.pool_waits = Counter(
            "ferry_cache_store_pool_waits", "Calls that found our own connections busy", registry=at
        )
        self.breaker = Gauge("ferry_cache_breaker_open", "1 while a breaker is open", ["path"], registry=at)
        self.entries = Gauge("ferry_cache_entries", "Entries in this process", registry=at)
        self.bytes = Gauge("ferry_cache_bytes", "Bytes of entries in this process", registry=at)
        self.indexed = Gauge("ferry_cache_indexed_entries", "Entries in the semantic index", registry=at)
        self.index_ready = Gauge("ferry_cache_index_ready", "1 once stored entries are loaded", registry=at)
        self.store_seconds = Histogram(
            "ferry_cache_store_seconds", "Shared store reads", registry=at, buckets=_FINE
        )
        self.embed_seconds = Histogram(
            "ferry_cache_embed_seconds", "Embedding a question", registry=at, buckets=_FINE
        )
        self.search_seconds = Histogram(
            "ferry_cache_search_seconds", "Search and verification", registry=at, buckets=_FINE
        )

    @staticmethod
    def value(metric: MetricWrapperBase) -> int:
        """Of a metric without labels, for JSON."""
        return sum(int(sample.value) for sample in _counts(metric))

    @staticmethod
    def by_labels(metric: MetricWrapperBase) -> dict[str, int]:
        """Counts by label values joined with a slash, for JSON."""
        return {"/".join(sample.labels.values()): int(sample.value) for sample in _counts(metric)}


def _counts(metric: MetricWrapperBase) -> list[Sample]:
    samples = [sample for family in metric.collect() for sample in family.samples]
    return [sample for sample in samples if not sample.name.endswith("_created")]
