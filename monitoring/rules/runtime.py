"""What is watched on the runtime, by whatever it was started."""

from __future__ import annotations

from monitoring.rules.model import Alert, Group, Recorded, Severity

_OF = frozenset({"namespace", "service"})
_BY = "by (namespace, service)"
_WHO = "{{ $labels.namespace }}/{{ $labels.service }}"
_POD = "{{ $labels.instance }} of " + _WHO

SLOW_SECONDS = "2.5"
"""A first token later than this is slow: a bucket's bound of ferry_time_to_first_token_seconds."""
SLOW_BUDGET = 0.05
"""The share of answers that may be slow."""


def _recorded(name: str, expr: str, *labels: str) -> Recorded:
    return Recorded(name=f"ferry:{name}", expr=expr, labels=_OF | set(labels))


def _share(part: str, whole: str) -> str:
    return f"sum {_BY} (rate({part}[5m]))\n/\nsum {_BY} (rate({whole}[5m]))"


def _slow(window: str) -> Recorded:
    metric = "ferry_time_to_first_token_seconds"
    return _recorded(
        f"first_token_slow:ratio_rate{window}",
        f'1 - sum {_BY} (rate({metric}_bucket{{le="{SLOW_SECONDS}"}}[{window}]))\n'
        f"/\nsum {_BY} (rate({metric}_count[{window}]))",
    )


def _quantile(name: str, metric: str, quantile: float) -> Recorded:
    return _recorded(
        f"{name}:p{quantile * 100:.0f}_5m",
        f"histogram_quantile({quantile}, sum by (namespace, service, le) (rate({metric}_bucket[5m])))",
    )


_REFUSED = 'ferry_requests_rejected_total{reason=~"queue_requests|queue_tokens|tenant|wait"}'
_HITS = 'ferry_cache_answers_total{outcome=~"exact|semantic|coalesced"}'
_LOOKED_UP = 'ferry_cache_answers_total{outcome!="bypass"}'

RECORDED = Group(
    "ferry-runtime-recorded",
    (
        _recorded("requests:rate5m", "sum by (namespace, service, outcome) (rate(ferry_requests_total[5m]))",
                  "outcome"),
        _recorded("refused:ratio_rate5m", _share(_REFUSED, "ferry_requests_total")),
        _recorded("failed:ratio_rate5m", _share('ferry_requests_total{outcome="error"}', "ferry_requests_total")),
        _recorded("late:ratio_rate5m", _share('ferry_requests_total{outcome="timeout"}', "ferry_requests_total")),
        _recorded("cache_hits:ratio_rate5m", _share(_HITS, _LOOKED_UP)),
        _recorded("generated_tokens:rate5m", f"sum {_BY} (rate(ferry_generation_tokens_total[5m]))"),
        _recorded("batch_size:mean_rate5m", _share("ferry_batch_size_sum", "ferry_batch_size_count")),
        _recorded("queue_fill:ratio", f"max {_BY} (\n"
                  "  ferry_num_requests_waiting / ferry_queue_max_requests\n"
                  "  > ferry_queued_tokens / ferry_queue_max_tokens\n"
                  "  or ferry_queued_tokens / ferry_queue_max_tokens\n)"),
        _quantile("first_token", "ferry_time_to_first_token_seconds", 0.5),
        _quantile("first_token", "ferry_time_to_first_token_seconds", 0.95),
        _quantile("answer", "ferry_e2e_request_latency_seconds", 0.95),
        *(_slow(window) for window in ("5m", "30m", "1h", "6h")),
    ),
)  # fmt: skip


def _burning(factor: float, long: str, short: str) -> str:
    bound = f"{factor * SLOW_BUDGET:g}"
    slow = "ferry:first_token_slow:ratio_rate"
    return f"{slow}{long} > {bound}\nand {slow}{short} > {bound}"


SERVING = Group(
    "ferry-runtime-serving",
    (
        Alert(
            name="FerryNothingServes",
            # What is loaded for the first time has twenty minutes, what has served five. A replica that does
            # not even answer the scrape has no ferry_ready.
            expr=f"(\n  sum {_BY} (ferry_ready) == 0\n"
            f"  and (\n    max_over_time(sum {_BY} (ferry_ready)[6h:1m]) > 0\n"
            f"    or count_over_time(sum {_BY} (ferry_ready)[20m:1m]) >= 15\n  )\n)\n"
            f'or (\n  count {_BY} (up{{job="ferry-runtime"}} == 0)\n'
            f'  unless count {_BY} (up{{job="ferry-runtime"}} == 1)\n)',
            lasting="5m",
            severity=Severity.CRITICAL,
            summary=f"No replica of {_WHO} is ready.",
            means="Replicas say that they would take no request, or do not even answer the scrape: every client gets "
            "an error.",
            do="Ask a replica's `/health`: its `reason` is a sentence. While a model is being loaded the first "
            "time, wait; a `failed` engine needs its log read and its manifest changed.",
        ),
        Alert(
            name="FerryReplicaDown",
            expr='up{job="ferry-runtime"} == 0',
            lasting="5m",
            severity=Severity.WARNING,
            summary=f"{_POD} does not answer its scrape.",
            means="Prometheus cannot fetch `/metrics`: the process is gone, hangs, or the network lies between.",
            do="Look at the pod's state and last log lines, then at network policies between Prometheus and it.",
        ),
        Alert(
            name="FerryReplicaNotReady",
            expr="ferry_ready == 0",
            lasting="15m",
            severity=Severity.WARNING,
            summary=f"{_POD} has not been ready for 15 minutes.",
            means="The replica runs and gets no traffic: loading, restarting its engine again and again, "
            "draining, or failed.",
            do="Ask its `/health`. Large models over a slow network may need longer: then raise `for`.",
        ),
        Alert(
            name="FerryEngineRestarted",
            expr="increase(ferry_engine_restarts_total[15m]) > 0",
            lasting="0m",
            severity=Severity.WARNING,
            summary=f"The engine of {_POD} died and was started again.",
            means="Every request that was open got an error. Killed by signal 9 most often means out of memory.",
            do="The runtime's log names the signal or the error. For memory: lower `engine.kvCache.memory` or "
            "raise the pod's limit. For a CUDA error: look at the node's GPU.",
        ),
        Alert(
            name="FerryEngineKeepsRestarting",
            expr="increase(ferry_engine_restarts_total[30m]) > 3",
            lasting="0m",
            severity=Severity.CRITICAL,
            summary=f"The engine of {_POD} keeps dying.",
            means="It dies about as fast as it loads; the replica serves next to nothing.",
            do="As for FerryEngineRestarted. If it began with a change of the manifest, take that back.",
        ),
        Alert(
            name="FerryFailing",
            expr="ferry:failed:ratio_rate5m > 0.01",
            lasting="5m",
            severity=Severity.CRITICAL,
            summary=f"{{{{ $value | humanizePercentage }}}} of the requests of {_WHO} fail.",
            means="Admitted requests end in an error that is not the client's: the engine died, or failed on them.",
            do="Search the log for level `error` with the `request_id` of a failed answer's `X-Request-Id`.",
        ),
    ),
)

LOAD = Group(
    "ferry-runtime-load",
    (
        Alert(
            name="FerryQueueSaturated",
            expr="ferry:queue_fill:ratio > 0.8",
            lasting="5m",
            severity=Severity.WARNING,
            summary=f"The queue of {_WHO} is {{{{ $value | humanizePercentage }}}} full.",
            means="More comes in than is generated. At 100 % requests are refused with 429 or 503.",
            do="Add replicas. If clients can wait, raise `batching.queue`; if batches are not full, look at "
            "memory for keys and values.",
        ),
        Alert(
            name="FerryRefusing",
            expr="ferry:refused:ratio_rate5m > 0.05",
            lasting="5m",
            severity=Severity.CRITICAL,
            summary=f"{_WHO} refuses {{{{ $value | humanizePercentage }}}} of its requests for want of room.",
            means="Clients get 429 (their tenant holds more than its share) or 503 (the queue is full, or the "
            "wait would be hopeless), with `Retry-After`.",
            do="`ferry_requests_rejected_total` by `reason` says which bound is hit. Add replicas, or limit the "
            "tenant that sends too much.",
        ),
        Alert(
            name="FerryTimingOut",
            expr="ferry:late:ratio_rate5m > 0.05",
            lasting="5m",
            severity=Severity.CRITICAL,
            summary=f"{{{{ $value | humanizePercentage }}}} of the requests of {_WHO} run out of time.",
            means="They waited longer than `batching.queue.timeout` or their own `timeout`, and get 504.",
            do="As for FerryQueueSaturated. A timeout that is shorter than an answer takes is the clients' to mend.",
        ),
        Alert(
            name="FerryFirstTokenSlowFast",
            expr=_burning(14.4, "1h", "5m"),
            lasting="2m",
            severity=Severity.CRITICAL,
            summary=f"{{{{ $value | humanizePercentage }}}} of the first tokens of {_WHO} come late.",
            means=f"Of the answers of an hour, and still, over 72 % take longer than {SLOW_SECONDS} s to their "
            "first token: the monthly budget of 5 % would be gone in two days.",
            do="Queue time or prompt? Compare `ferry_request_queue_time_seconds` with it. Queue: add replicas. "
            "Prompt: long prompts without shared heads need a faster device.",
        ),
        Alert(
            name="FerryFirstTokenSlow",
            expr=_burning(6, "6h", "30m"),
            lasting="15m",
            severity=Severity.WARNING,
            summary=f"{{{{ $value | humanizePercentage }}}} of the first tokens of {_WHO} come late.",
            means=f"Of the answers of six hours, and still, over 30 % take longer than {SLOW_SECONDS} s to their "
            "first token.",
            do="As for FerryFirstTokenSlowFast, with less haste.",
        ),
        Alert(
            name="FerryKvMemoryShort",
            expr=f"sum {_BY} (rate(ferry_num_preemptions_total[10m])) > 0\n"
            f"and max {_BY} (ferry_kv_cache_usage_perc) > 0.9",
            lasting="15m",
            severity=Severity.WARNING,
            summary=f"{_WHO} pauses running sequences for want of memory for keys and values.",
            means="Sequences are taken out and computed again later: answers stay right, throughput falls.",
            do="Raise `engine.kvCache.memory`, lower `batching.maxBatchSize`, or lower `generation.maxTokensLimit`.",
        ),
        Alert(
            name="FerryFileDescriptorsShort",
            expr='process_open_fds{job="ferry-runtime"} / process_max_fds{job="ferry-runtime"} > 0.8',
            lasting="10m",
            severity=Severity.WARNING,
            summary=f"{_POD} has {{{{ $value | humanizePercentage }}}} of its file descriptors open.",
            means="Each connection takes one; at 100 % nobody can connect.",
            do="Look for clients that open a connection for each request and keep it; raise the limit.",
        ),
    ),
)  # fmt: skip
