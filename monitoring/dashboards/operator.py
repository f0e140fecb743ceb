"""The operator's dashboard: itself, and every InferenceService that it looks after."""

from __future__ import annotations

from monitoring.dashboards.model import Dashboard, Row, Variable
from monitoring.dashboards.parts import heat, latency, lines, now, number, quantile, rate, share

_NAME = "{{inferenceservice_namespace}}/{{inferenceservice}}"
_OF = ("inferenceservice_namespace", "inferenceservice")
_POD = "{{namespace}}/{{pod}}"


def _true(condition: str) -> str:
    inner = f'ferry_operator_inferenceservice_condition{{@, condition="{condition}"}}'
    return f"sum (max by ({', '.join(_OF)}) ({inner}))"


_SERVICES = Row(
    "InferenceServices",
    (
        number("In scope", now("ferry_operator_inferenceservices", of="max")),
        number("Available", _true("Available")),
        number("Ready", _true("Ready")),
        number("Stalled", _true("Stalled"), alarm=1),
        lines("Pods that serve", (now("ferry_operator_inferenceservice_ready_replicas", *_OF, of="max"), _NAME)),
        lines("Pods that are missing",
              (f"{now('ferry_operator_inferenceservice_wanted_replicas', *_OF, of='max')} - "
               f"{now('ferry_operator_inferenceservice_ready_replicas', *_OF, of='max')} > 0", _NAME), alarm=1),
        lines("Not available",
              ("1 - max by (inferenceservice_namespace, inferenceservice) "
               '(ferry_operator_inferenceservice_condition{@, condition="Available"}) > 0', _NAME)),
        lines("Stalled",
              ("max by (inferenceservice_namespace, inferenceservice) "
               '(ferry_operator_inferenceservice_condition{@, condition="Stalled"}) > 0', _NAME)),
    ),
)  # fmt: skip

_WORK = Row(
    "Reconciling",
    (
        lines("Reconciles", (rate("ferry_operator_reconcile_duration_seconds_count"), "per second"), unit="ops"),
        latency("Time of a reconcile", "ferry_operator_reconcile_duration_seconds"),
        heat("Time of a reconcile", "ferry_operator_reconcile_duration_seconds", "s"),
        lines("Repeated, by reason", (rate("ferry_operator_reconcile_errors_total", "reason"), "{{reason}}"),
              unit="ops", stacked=True),
        lines("Waiting", (now("ferry_operator_queue_depth", "namespace", "pod"), _POD), alarm=20),
        latency("From event to reconcile", "ferry_operator_queue_duration_seconds"),
    ),
)  # fmt: skip

_CLUSTER = Row(
    "The API server",
    (
        lines("Calls by verb", (rate("ferry_operator_api_calls_total", "verb"), "{{verb}}"), unit="ops", stacked=True),
        lines("Calls by code", (rate("ferry_operator_api_calls_total", "code"), "{{code}}"), unit="ops", stacked=True,
              text="0: no answer."),
        lines("Calls that fail",
              (share('ferry_operator_api_calls_total{code=~"0|429|5.."}', "ferry_operator_api_calls_total"), "share"),
              unit="percentunit", most=1, alarm=0.1),
        lines("Since the stalest watch was answered", (now("ferry_operator_watch_age_seconds", "namespace", "pod"), _POD),
              unit="s", alarm=150),
        lines("Leader", (now("ferry_operator_leader", "namespace", "pod"), _POD), most=1),
        lines("Namespaces that may not be read", (now("ferry_operator_closed_namespaces", "namespace", of="max"),
              "{{namespace}}"), alarm=1),
        lines("In the queue, p95", (quantile("ferry_operator_queue_duration_seconds", 0.95, "namespace"),
              "{{namespace}}"), unit="s"),
    ),
)  # fmt: skip

OPERATOR = Dashboard(
    uid="ferry-operator",
    title="Ferry / Operator",
    variables=(
        Variable(label="namespace", metric="ferry_operator_leader"),
        Variable(label="pod", metric="ferry_operator_leader", within=("namespace",)),
    ),
    rows=(_SERVICES, _WORK, _CLUSTER),
)
