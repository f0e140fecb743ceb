"""What is watched on the operator, and through it on every InferenceService."""

from __future__ import annotations

from monitoring.rules.model import Alert, Group, Severity

_BY = "by (inferenceservice_namespace, inferenceservice)"
_WHO = "{{ $labels.inferenceservice_namespace }}/{{ $labels.inferenceservice }}"
_POD = "{{ $labels.namespace }}/{{ $labels.pod }}"


def _condition(name: str) -> str:
    return f'max {_BY} (ferry_operator_inferenceservice_condition{{condition="{name}"}})'


_WANTED = f"max {_BY} (ferry_operator_inferenceservice_wanted_replicas) > 0"

SERVICES = Group(
    "ferry-operator-services",
    (
        Alert(
            name="FerryServiceUnavailable",
            expr=f"{_condition('Available')} == 0\nand {_WANTED}",
            lasting="10m",
            severity=Severity.CRITICAL,
            summary=f"InferenceService {_WHO} is not available.",
            means="No pod serves at `status.url`, although the service is neither suspended nor scaled to zero.",
            do="`kubectl describe infsvc NAME`: the condition's reason and message say what is in the way.",
        ),
        Alert(
            name="FerryServiceNotReady",
            expr=f"{_condition('Ready')} == 0\nand {_WANTED}",
            lasting="30m",
            severity=Severity.WARNING,
            summary=f"The current generation of InferenceService {_WHO} is not rolled out.",
            means="Older pods may still serve (see `Available`), but what was last applied does not, or not whole.",
            do="`kubectl describe infsvc NAME`. Loading large weights may take longer than half an hour.",
        ),
        Alert(
            name="FerryServiceStalled",
            expr=f"{_condition('Stalled')} == 1",
            lasting="5m",
            severity=Severity.WARNING,
            summary=f"InferenceService {_WHO} is stalled: somebody has to act.",
            means="Nothing changes by itself: an invalid spec, a missing Secret, an image that cannot be pulled, "
            "an object of that name that belongs to somebody else.",
            do="`kubectl get infsvc NAME -o yaml`: the message of condition `Stalled` says what to do.",
        ),
        Alert(
            name="FerryServiceShortOfPods",
            expr=f"max {_BY} (ferry_operator_inferenceservice_ready_replicas)\n"
            f"< max {_BY} (ferry_operator_inferenceservice_wanted_replicas)",
            lasting="15m",
            severity=Severity.WARNING,
            summary=f"InferenceService {_WHO} has {{{{ $value }}}} pods that serve, fewer than it wants.",
            means="Some replicas are missing: pending for want of a GPU, crashing, or not ready.",
            do="`kubectl describe infsvc NAME`, then the pods: `kubectl describe pod -l "
            "serving.ferry.dev/inferenceservice=NAME`.",
        ),
    ),
)

OPERATOR = Group(
    "ferry-operator",
    (
        Alert(
            name="FerryOperatorDown",
            expr='absent(up{job="ferry-operator"} == 1)',
            lasting="5m",
            severity=Severity.CRITICAL,
            summary="No operator answers its scrape.",
            means="Models go on serving; nothing is changed, repaired or scaled, and no status is up to date.",
            do="Look at the operator's pods. If they run: is its ServiceMonitor selected by your Prometheus?",
        ),
        Alert(
            name="FerryOperatorWithoutLeader",
            expr="sum by (namespace) (ferry_operator_leader) == 0",
            lasting="2m",
            severity=Severity.CRITICAL,
            summary="No operator in {{ $labels.namespace }} holds the Lease.",
            means="Processes run, and none may write: the API server is unreachable, or the Lease may not be "
            "written.",
            do="The operator's log says what the API server answers; check its Role for leases.",
        ),
        Alert(
            name="FerryOperatorWatchStale",
            expr="ferry_operator_watch_age_seconds > 150",
            lasting="1m",
            severity=Severity.WARNING,
            summary=f"A watch of the operator {_POD} has been silent for {{{{ $value | humanizeDuration }}}}.",
            means="Each watch is answered once a minute. Silent ones mean that changes are not seen; while the API "
            "server answers otherwise, the kubelet restarts the process after three minutes.",
            do="If it comes again after the restart: network path or API server's load (APF, etcd).",
        ),
        Alert(
            name="FerryOperatorReconcileErrors",
            expr="sum by (namespace, reason) (rate(ferry_operator_reconcile_errors_total[10m])) > 0",
            lasting="15m",
            severity=Severity.WARNING,
            summary="Reconciles in {{ $labels.namespace }} keep failing: {{ $labels.reason }}.",
            means="They are repeated with growing pauses. `Bug` is a fault of the operator.",
            do="The operator's log names the InferenceService and what the API server said.",
        ),
        Alert(
            name="FerryOperatorBacklog",
            expr="max by (namespace) (ferry_operator_queue_depth) > 20",
            lasting="10m",
            severity=Severity.WARNING,
            summary="{{ $value }} InferenceServices wait for the operator in {{ $labels.namespace }}.",
            means="More changes than are worked off: a slow API server, or a change of everything at once.",
            do="Compare `ferry_operator_reconcile_duration_seconds` with the API server's own latency.",
        ),
        Alert(
            name="FerryOperatorApiErrors",
            expr='sum by (namespace) (rate(ferry_operator_api_calls_total{code=~"0|429|5.."}[5m]))\n'
            "/ sum by (namespace) (rate(ferry_operator_api_calls_total[5m])) > 0.1",
            lasting="10m",
            severity=Severity.WARNING,
            summary="{{ $value | humanizePercentage }} of the operator's calls to the API server fail.",
            means="Answered with 429 or 5xx, or not at all (code 0).",
            do="Look at the API server. 429: its priority-and-fairness settings.",
        ),
        Alert(
            name="FerryOperatorNamespaceClosed",
            expr="max by (namespace) (ferry_operator_closed_namespaces) > 0",
            lasting="10m",
            severity=Severity.WARNING,
            summary="The operator in {{ $labels.namespace }} may not read {{ $value }} of its namespaces.",
            means="A namespace of `scope.namespaces` is gone, or its RoleBinding is.",
            do="`helm upgrade` makes the Roles again; a namespace that is gone for good leaves the values.",
        ),
    ),
)
