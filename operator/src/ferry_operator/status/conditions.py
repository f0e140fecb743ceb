"""The six conditions. All are there in every state, and none says more than was seen.

Available is what routes traffic: some revision serves. Ready is about the current generation alone.
kstatus reads Ready, Stalled and observedGeneration: https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus
"""

from __future__ import annotations

from dataclasses import dataclass

from ferry_api.status import ConditionStatus, ConditionType
from ferry_operator.kinds import Kind
from ferry_operator.observing.facts import DeploymentFacts, PodFacts
from ferry_operator.observing.pods import HOPELESS
from ferry_operator.status.picture import Picture, worst

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@dataclass(frozen=True)
class Truth:
    """One condition's content."""

    status: ConditionStatus
    reason: str
    message: str
    stuck: bool = False
    """Nothing changes until somebody acts."""


def conditions(seen: Picture) -> dict[ConditionType, Truth]:
    """Every condition for what was seen."""
    runtime = _runtime(seen)
    ready = _stopped(seen) or runtime
    return {
        ConditionType.AVAILABLE: _available(seen, ready),
        ConditionType.READY: ready,
        ConditionType.PROGRESSING: _progressing(seen, ready),
        ConditionType.STALLED: Truth(TRUE if ready.stuck else FALSE, ready.reason, ready.message),
        ConditionType.RUNTIME_READY: runtime,
        ConditionType.CACHE_READY: _cache(seen),
    }


def _stopped(seen: Picture) -> Truth | None:
    """What keeps the current generation from being made so at all."""
    if seen.problems:
        first = seen.problems[0]
        return Truth(FALSE, first.reason, first.message, stuck=True)
    if seen.pending is not None:
        return Truth(FALSE, seen.pending.reason, seen.pending.message)
    return None


def _runtime(seen: Picture) -> Truth:
    if seen.resource.spec.suspend:
        return Truth(FALSE, "Suspended", "spec.suspend is true: no pods run; set it to false to start them")
    if seen.wanted == 0:
        return Truth(FALSE, "ScaledToZero", "spec.replicas is 0: no pods run; raise it to start them")
    runtime = seen.runtime
    if runtime is None:
        return Truth(FALSE, "Creating", "the runtime's Deployment is being created")
    counted = f"{runtime.ready} of {seen.wanted} pods serve"
    if seen.rolled_out:
        return Truth(TRUE, "Serving", counted)
    hindrance = _hindrance(runtime, seen.runtime_pods)
    if hindrance is not None:
        return hindrance
    if not seen.settled:
        return Truth(FALSE, "Updating", "the Deployment is taking up the current generation")
    if runtime.ready > 0:
        message = f"{counted}; {runtime.updated} of {seen.wanted} are of the current generation"
        return Truth(FALSE, "RollingOut", message)
    if not seen.runtime_pods:
        return Truth(FALSE, "Creating", f"{counted}; pods are being created")
    return Truth(FALSE, "Loading", f"{counted}; images and weights are being loaded")


def _hindrance(deployment: DeploymentFacts, pods: tuple[PodFacts, ...]) -> Truth | None:
    """Why a Deployment does not come to its end, as its pods tell it."""
    trouble = worst(pods)
    if trouble is not None:
        stuck = trouble.reason in HOPELESS or deployment.deadline_exceeded
        return Truth(FALSE, trouble.reason, trouble.message, stuck=stuck)
    if deployment.failure is not None:
        return Truth(FALSE, "CannotCreatePods", deployment.failure, stuck=True)
    if deployment.deadline_exceeded:
        message = "pods have not become ready for longer than the Deployment's progress deadline"
        return Truth(FALSE, "ProgressDeadlineExceeded", message, stuck=True)
    return None


def _available(seen: Picture, ready: Truth) -> Truth:
    serving = seen.runtime.ready if seen.runtime is not None else 0
    if serving > 0 and seen.lacking is not None:
        return _unreached(seen, seen.lacking)
    if serving > 0:
        return Truth(TRUE, "Serving", f"{serving} pods serve")
    if ready.status == TRUE:
        return Truth(FALSE, "NoPods", "no pod serves")
    return Truth(FALSE, ready.reason, ready.message)


def _unreached(seen: Picture, lacking: tuple[Kind, str]) -> Truth:
    """Why what serves is not reached: something between is another's, or not made yet."""
    told = (*seen.problems, seen.pending)
    trouble = next((found for found in told if found is not None and found.about == lacking), None)
    if trouble is not None:
        return Truth(FALSE, trouble.reason, trouble.message)
    kind, name = lacking
    return Truth(FALSE, "Creating", f"pods serve, but {kind.kind} {name} is not there yet")


def _progressing(seen: Picture, ready: Truth) -> Truth:
    if ready.status == TRUE:
        return Truth(FALSE, "Complete", "the current generation is rolled out")
    if ready.stuck:
        return Truth(FALSE, ready.reason, ready.message)
    if seen.wanted == 0:
        left = seen.runtime.replicas if seen.runtime is not None else 0
        if left > 0:
            return Truth(TRUE, "ScalingDown", f"{left} pods are being stopped")
        return Truth(FALSE, ready.reason, ready.message)
    return Truth(TRUE, ready.reason, ready.message)


def _cache(seen: Picture) -> Truth:
    cache = seen.resource.spec.cache
    if not cache.enabled:
        return Truth(FALSE, "Disabled", "spec.cache.enabled is false")
    if cache.redis.external is not None:
        return Truth(
            UNKNOWN, "External", "the Redis is yours; the runtime's /health tells whether it answers"
        )
    if seen.resource.spec.suspend:
        return Truth(FALSE, "Suspended", "spec.suspend is true: no pods run")
    redis = seen.redis
    if redis is None:
        return Truth(FALSE, "Creating", "the Redis Deployment is being created")
    if redis.ready > 0 and seen.redis_lacking is not None:
        return _unreached(seen, seen.redis_lacking)
    if redis.ready > 0:
        return Truth(TRUE, "Serving", "Redis answers")
    return _hindrance(redis, seen.redis_pods) or Truth(
        FALSE, "Down", "Redis does not answer; requests are served without the shared cache"
    )
