"""What GET /dashboard/data answers: one replica, as it stands now and over its latest minutes.

Every number comes from this process: the metrics of its registry, the windows beside them. A page that
is answered by several replicas in turn tells them apart by ``replica.id`` and mixes nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ferry_runtime.api.recent import RecentRequest
from ferry_runtime.api.routes.health import EngineHealth
from ferry_runtime.cache.semantic.compared import Compared
from ferry_runtime.timeline import Columns
from ferry_runtime.windows import Spread


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` is the host's, on a cluster the pod's; ``id`` also tells one life of it from the next."""

    id: str
    name: str
    started: float  # Unix seconds
    version: str


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    chat: bool  # the model has a chat template
    state: str
    ready: bool
    reason: str
    engine: EngineHealth
    max_batch_size: int
    max_wait_ms: float
    batching_mode: str
    queue_max_requests: int
    queue_max_tokens: int
    cache_enabled: bool
    similarity_threshold: float
    verifier: str
    cache_ttl_seconds: float
    store: dict[str, Any]  # as in /health


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Since the start; the counters of /metrics, added up over the labels that are not shown."""

    requests: dict[str, int]  # ferry_requests_total by outcome
    answers: dict[str, int]  # ferry_cache_answers_total by where they came from
    rejected: dict[str, int]  # ferry_requests_rejected_total by reason
    client_errors: int  # ferry_http_requests_total of status 400 to 499 but 429, which `rejected` has
    prompt_tokens: int
    generated_tokens: int
    saved_tokens: dict[str, int]  # ferry_cache_saved_tokens_total


class BatchSizes(msgspec.Struct, frozen=True, kw_only=True):
    """``steps`` counts the decode steps of each bucket of ferry_batch_size, not cumulated."""

    mean: float
    bounds: list[float]  # upper, inclusive; the last one is open and given as 0
    steps: list[int]


class Live(msgspec.Struct, frozen=True, kw_only=True):
    running: int
    slots: int
    waiting: int
    waiting_tokens: int
    kv_used: int
    kv_total: int
    engine_steps: int
    step_ms: float
    prefix_reused_tokens: int


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies are milliseconds; ``now`` is in Unix seconds."""

    now: float
    uptime_seconds: float
    replica: Replica
    service: ServiceState
    live: Live
    totals: Totals
    latency: Spread
    first_token: Spread
    batch: BatchSizes
    cache: dict[str, Any] | None  # as in /cache/stats
    timeline: Columns
    recent: list[RecentRequest]
    compared: list[Compared]
