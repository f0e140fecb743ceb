"""The runtime's dashboard: how one or more services do."""

from __future__ import annotations

from monitoring.dashboards.model import Dashboard, Row, Variable
from monitoring.dashboards.parts import heat, latency, lines, now, number, quantile, rate, share

_HITS = 'ferry_cache_answers_total{outcome=~"exact|semantic|coalesced"}'
_LOOKED_UP = 'ferry_cache_answers_total{outcome!="bypass"}'
_POD = "{{namespace}}/{{service}} {{instance}}"
_WHERE = ("namespace", "service", "instance")

_OVERVIEW = Row(
    "At a glance",
    (
        number("Ready replicas", now("ferry_ready")),
        number("Requests", rate("ferry_requests_total"), "reqps"),
        number("Generated tokens", rate("ferry_generation_tokens_total"), "tps"),
        number("First token, p95", quantile("ferry_time_to_first_token_seconds", 0.95), "s"),
        number("Answered from the cache", share(_HITS, _LOOKED_UP), "percentunit"),
        number("Refused", share("ferry_requests_rejected_total", "ferry_requests_total"), "percentunit",
               alarm=0.05),
        number("Failed", share('ferry_requests_total{outcome="error"}', "ferry_requests_total"),
               "percentunit", alarm=0.01),
        number("Engine restarts, 1 h", "sum (increase(ferry_engine_restarts_total{@}[1h]))", alarm=1),
    ),
)  # fmt: skip

_REQUESTS = Row(
    "Requests",
    (
        lines("By outcome", (rate("ferry_requests_total", "outcome"), "{{outcome}}"), unit="reqps", stacked=True),
        lines("Refusals by reason", (rate("ferry_requests_rejected_total", "reason"), "{{reason}}"),
              unit="reqps", stacked=True),
        lines("By route", (rate("ferry_requests_total", "route"), "{{route}}"), unit="reqps", stacked=True),
        lines("HTTP answers by status", (rate("ferry_http_requests_total", "status"), "{{status}}"),
              unit="reqps", stacked=True),
        lines("HTTP duration by route, p95",
              (quantile("ferry_http_request_duration_seconds", 0.95, "route"), "{{route}}"), unit="s"),
        lines("Open HTTP requests", (now("ferry_http_requests_open", *_WHERE), _POD)),
        lines("Finish reasons", (rate("ferry_request_success_total", "finished_reason"), "{{finished_reason}}"),
              unit="reqps", stacked=True),
    ),
)  # fmt: skip

_LATENCY = Row(
    "Latency",
    (
        latency("Time to first token", "ferry_time_to_first_token_seconds", "From arrival; generated answers."),
        latency("Between tokens", "ferry_inter_token_latency_seconds"),
        latency("Whole answer", "ferry_e2e_request_latency_seconds", "Cached answers included."),
        lines("In the queue, p95, by priority",
              (quantile("ferry_request_queue_time_seconds", 0.95, "priority"), "{{priority}}"), unit="s"),
        heat("Time to first token", "ferry_time_to_first_token_seconds", "s"),
        lines("Slow first tokens",
              ("ferry:first_token_slow:ratio_rate5m{@NS}", "{{namespace}}/{{service}} 5 min"),
              ("ferry:first_token_slow:ratio_rate1h{@NS}", "{{namespace}}/{{service}} 1 h"),
              unit="percentunit", most=1, alarm=0.05, text="Later than the bound that the alerts were made for (2.5 s unless it was changed). The budget is 5 %."),
    ),
)  # fmt: skip

_BATCHES = Row(
    "Batches and queue",
    (
        lines("Rows per decode step, mean",
              (share("ferry_batch_size_sum", "ferry_batch_size_count", *_WHERE), _POD),
              (now("ferry_engine_slots", of="max"), "slots")),
        heat("Rows per decode step", "ferry_batch_size"),
        lines("Running and waiting", (now("ferry_num_requests_running"), "running"),
              (now("ferry_num_requests_waiting"), "waiting"), (now("ferry_engine_slots"), "slots")),
        lines("Queue fill", ("ferry:queue_fill:ratio{@NS}", "{{namespace}}/{{service}}"),
              unit="percentunit", most=1, alarm=0.8, text="The nearer of its two bounds."),
        lines("Tokens in the queue", (now("ferry_queued_tokens", *_WHERE), _POD),
              (now("ferry_queue_max_tokens", of="max"), "bound")),
        lines("Queue's bound in requests", (now("ferry_num_requests_waiting", *_WHERE), _POD),
              (now("ferry_queue_max_requests", of="max"), "bound")),
    ),
)  # fmt: skip

_TOKENS = Row(
    "Tokens",
    (
        lines("Generated, by tenant", (rate("ferry_generation_tokens_total", "tenant"), "{{tenant}}"),
              unit="tps", stacked=True),
        lines("Prompts, by tenant", (rate("ferry_prompt_tokens_total", "tenant"), "{{tenant}}"),
              unit="tps", stacked=True),
        lines("Prompt tokens computed and reused", (rate("ferry_prefill_tokens_total"), "computed"),
              (rate("ferry_prefix_reused_tokens_total"), "reused from saved heads"), unit="tps", stacked=True),
        lines("Saved by the cache", (rate("ferry_cache_saved_tokens_total", "outcome"), "{{outcome}}"),
              unit="tps", stacked=True, text="Tokens of answers that were not generated."),
        heat("Prompt tokens per request", "ferry_request_prompt_tokens"),
        heat("Tokens per answer", "ferry_request_generation_tokens"),
        lines("Generated over expected", (quantile("ferry_cost_estimate_ratio", 0.5), "p50"),
              (quantile("ferry_cost_estimate_ratio", 0.95), "p95"),
              text="How well the scheduler guesses an answer's length; 1 is right."),
    ),
)  # fmt: skip

_ENGINE = Row(
    "Engine and process",
    (
        lines("Memory for keys and values", (now("ferry_kv_cache_usage_perc", *_WHERE, of="max"), _POD),
              unit="percentunit", most=1, alarm=0.9),
        lines("Pauses for want of memory", (rate("ferry_num_preemptions_total", *_WHERE), _POD)),
        lines("Steps", (rate("ferry_engine_steps_total", *_WHERE), _POD), unit="ops"),
        lines("Since the engine last spoke", (now("ferry_engine_heartbeat_age_seconds", *_WHERE, of="max"), _POD),
              unit="s"),
        lines("Engine restarts", ("sum by (namespace, service, instance) (increase(ferry_engine_restarts_total{@}[15m]))",
              _POD), alarm=1),
        lines("Resident memory", (now("ferry_engine_resident_memory_bytes", *_WHERE), "engine " + _POD),
              (now("process_resident_memory_bytes", *_WHERE), "HTTP " + _POD), unit="bytes"),
        lines("Processor of the HTTP process", (rate("process_cpu_seconds_total", *_WHERE), _POD)),
        lines("File descriptors of the HTTP process", (now("process_open_fds", *_WHERE), _POD),
              (now("process_max_fds", of="min"), "bound")),
    ),
)  # fmt: skip

_CACHE = Row(
    "Cache",
    (
        lines("Answers by origin", (rate("ferry_cache_answers_total", "outcome"), "{{outcome}}"),
              unit="reqps", stacked=True),
        lines("Hit rate by tier",
              (share('ferry_cache_lookups_total{outcome="hit"}', "ferry_cache_lookups_total", "tier"), "{{tier}}"),
              unit="percentunit", most=1),
        lines("Kept out, by reason", (rate("ferry_cache_bypasses_total", "reason"), "{{reason}}"), unit="reqps"),
        lines("Without the semantic tier, by reason",
              (rate("ferry_cache_semantic_skips_total", "reason"), "{{reason}}"), unit="reqps"),
        lines("Near misses", (rate("ferry_cache_near_misses_total"), "best candidate refused"),
              (rate("ferry_cache_rejections_total", "reason"), "{{reason}}"), unit="ops",
              text="Refused by the verifier, by its reason."),
        lines("Wrong semantic hits", (now("ferry_cache_shadow_wrong_rate", "bound", of="max"), "{{bound}}"),
              unit="percentunit", most=1, alarm=0.05, text="95 % bounds, from hits that were generated again."),
        lines("Comparisons and verdicts", (rate("ferry_cache_shadow_verdicts_total", "verdict"), "{{verdict}}"),
              (rate("ferry_cache_feedback_total", "verdict"), "clients: {{verdict}}"), unit="ops"),
        lines("Learned from verdicts",
              (rate("ferry_cache_learned_decisions_total", "verdict"), "decided otherwise: {{verdict}}"),
              (rate("ferry_cache_labels_total", "source", "verdict"), "{{source}}: {{verdict}}"), unit="ops",
              text="Labels of entries, and candidates that they decided against the verifier."),
        lines("Entries with a threshold of their own", (now("ferry_cache_labelled_entries", *_WHERE), _POD)),
        lines("Questions since the last semantic hit",
              (now("ferry_cache_lookups_since_semantic_hit", *_WHERE, of="max"), _POD), alarm=1000),
        lines("Following another request", (now("ferry_cache_coalesced_waiters"), "now"),
              (rate("ferry_cache_coalesced_total"), "per second"),
              (rate("ferry_cache_promotions_total"), "had to lead, per second")),
        lines("Entries", (now("ferry_cache_entries", *_WHERE), "answers " + _POD),
              (now("ferry_cache_indexed_entries", *_WHERE), "indexed " + _POD)),
        lines("Memory of entries", (now("ferry_cache_bytes", *_WHERE), _POD), unit="bytes"),
        lines("Loaded", (now("ferry_cache_embedder_ready", of="min"), "embedder"),
              (now("ferry_cache_index_ready", of="min"), "stored entries"), most=1,
              text="1 when every replica has it. Stored entries: with a shared store only."),
        lines("Embed and search, p95", (quantile("ferry_cache_embed_seconds", 0.95), "embed"),
              (quantile("ferry_cache_search_seconds", 0.95), "search"),
              (quantile("ferry_cache_store_seconds", 0.95), "store"), unit="s"),
        lines("Store errors", (rate("ferry_cache_store_errors_total", "operation", "kind"), "{{operation}} {{kind}}"),
              (rate("ferry_cache_store_pool_waits_total"), "all connections busy"), unit="ops"),
        lines("Open breakers", (now("ferry_cache_breaker_open", "path"), "{{path}}"), alarm=1,
              text="Replicas that have given up on the store for now."),
        lines("Writes", (rate("ferry_cache_writes_total", "outcome"), "{{outcome}}"), unit="ops", stacked=True),
    ),
)  # fmt: skip

_READY = "ferry_ready"
RUNTIME = Dashboard(
    uid="ferry-runtime",
    title="Ferry / Runtime",
    variables=(
        Variable(label="namespace", metric=_READY),
        Variable(label="service", metric=_READY, within=("namespace",)),
        Variable(label="pod", metric=_READY, within=("namespace", "service")),
    ),
    rows=(_OVERVIEW, _REQUESTS, _LATENCY, _BATCHES, _TOKENS, _ENGINE, _CACHE),
)
