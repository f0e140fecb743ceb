"""What is watched on the runtime's cache. It fails open, so nobody else will notice."""

from __future__ import annotations

from monitoring.rules.model import Alert, Group, Severity

_BY = "by (namespace, service)"
_WHO = "{{ $labels.namespace }}/{{ $labels.service }}"
_POD = "{{ $labels.instance }} of " + _WHO

CACHE = Group(
    "ferry-runtime-cache",
    (
        Alert(
            name="FerrySemanticTierNeverHits",
            expr="ferry_cache_lookups_since_semantic_hit > 1000",
            lasting="15m",
            severity=Severity.WARNING,
            summary=f"{_POD} has looked up {{{{ $value | humanize }}}} questions without one semantic hit.",
            means="The tier that answers near-repeats is dead, or the traffic has none. It costs an embedding for "
            "each question either way.",
            do="`ferry_cache_semantic_skips_total` by `reason` and `ferry_cache_rejections_total` by `reason` say "
            "where they end. `no_embedder`: see FerryEmbedderMissing. Rejections only: no near-repeats come; "
            "a threshold of 1 keeps the exact tier alone.",
        ),
        Alert(
            name="FerryEmbedderMissing",
            expr="ferry_cache_embedder_ready == 0\n"
            'and on (namespace, service, instance) rate(ferry_cache_semantic_skips_total{reason=~"no_embedder|embedder_failed"}[10m]) > 0',
            lasting="15m",
            severity=Severity.WARNING,
            summary=f"{_POD} has no embedder, so nothing is answered semantically.",
            means="Its weights cannot be had, or its process keeps dying; exact hits go on.",
            do="The runtime's log says why. On a cluster without the Hub, set `FERRY_EMBEDDER_DIR`.",
        ),
        Alert(
            name="FerryCacheBreakerOpen",
            expr="ferry_cache_breaker_open == 1",
            lasting="2m",
            severity=Severity.WARNING,
            summary=f"{_POD} has given up on the store for now ({{{{ $labels.path }}}}s).",
            means="Redis does not answer in time or refuses. Requests are generated or answered from this "
            "replica's own memory; nothing fails, everything costs more.",
            do="Is Redis up, and reachable from the pod? Refused writes: its memory is full with an eviction "
            "policy that forbids evicting, or it is a read-only replica.",
        ),
        Alert(
            name="FerryCacheStoreErrors",
            expr="sum by (namespace, service, operation, kind) (rate(ferry_cache_store_errors_total[10m])) > 0.05",
            lasting="10m",
            severity=Severity.WARNING,
            summary=f"{_WHO}: the store fails on {{{{ $labels.operation }}}}s ({{{{ $labels.kind }}}}).",
            means="Single calls fail, too few in a row to open the breaker.",
            do="As for FerryCacheBreakerOpen; then look at Redis' latency and at its CPU limit.",
        ),
        Alert(
            name="FerryCacheWritesLost",
            expr=f'sum {_BY} (rate(ferry_cache_writes_total{{outcome=~"failed|dropped"}}[15m]))\n'
            f'/ sum {_BY} (rate(ferry_cache_writes_total{{outcome=~"stored|failed|dropped"}}[15m])) > 0.05',
            lasting="15m",
            severity=Severity.WARNING,
            summary=f"{{{{ $value | humanizePercentage }}}} of the answers of {_WHO} are not kept.",
            means="Answers reach their clients and are lost to the cache: the store refuses, or cannot keep up.",
            do="As for FerryCacheBreakerOpen.",
        ),
        Alert(
            name="FerryCacheWrongHits",
            # A single wrong sample has a lower bound of 0.2: too few say nothing yet.
            expr='ferry_cache_shadow_wrong_rate{bound="low"} > 0.05\n'
            "and on (namespace, service, instance)\n"
            "  sum by (namespace, service, instance) (ferry_cache_shadow_verdicts_total) >= 20\n"
            # The rate is of all hits since the start: what was done about it shows in that no more come.
            "and on (namespace, service, instance)\n"
            '  increase(ferry_cache_shadow_verdicts_total{verdict="different"}[1h]) > 0',
            lasting="15m",
            severity=Severity.CRITICAL,
            summary=f"At least {{{{ $value | humanizePercentage }}}} of the semantic hits of {_POD} are wrong.",
            means="A share of the semantic hits is generated again and compared. Even the lower end of the 95 % "
            "interval is over 5 %, and in the last hour another one was wrong: users get answers to other questions.",
            do="Raise `cache.similarityThreshold` (it applies within seconds, without a restart), or set it to 1. "
            "Then purge: `POST /clear-cache` with the admin key.",
        ),
        Alert(
            name="FerryCacheIndexNotLoaded",
            expr="ferry_cache_index_ready == 0\n"
            "and on (namespace, service, instance) rate(ferry_cache_store_seconds_count[10m]) > 0",
            lasting="15m",
            severity=Severity.WARNING,
            summary=f"{_POD} has not loaded the stored entries.",
            means="It knows only what it has answered itself; semantic hits of other replicas' answers are missed.",
            do="The log says what interrupts the loading; a very large store takes minutes.",
        ),
    ),
)  # fmt: skip
