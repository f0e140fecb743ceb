"""What is known about one InferenceService when its status is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ferry_api.resource import InferenceService
from ferry_operator.kinds import DEPLOYMENT, POD, SERVICE, Kind
from ferry_operator.labels import Component
from ferry_operator.observing.facts import DeploymentFacts, Observed, PodFacts
from ferry_operator.observing.pods import HOPELESS, Trouble
from ferry_operator.plan import names


@dataclass(frozen=True)
class Picture:
    """One InferenceService, its two parts, and what stands in the way."""

    resource: InferenceService
    runtime: DeploymentFacts | None
    redis: DeploymentFacts | None
    runtime_pods: tuple[PodFacts, ...]
    redis_pods: tuple[PodFacts, ...]
    problems: tuple[Trouble, ...] = ()
    """What keeps the operator from making it so, the first being the one to tell."""
    pending: Trouble | None = None
    """Why the current generation is not made so yet, where nobody has to act: it passes by itself."""
    lacking: tuple[Kind, str] | None = None
    """What a request to the URL goes through and is not there, or is not ours."""
    redis_lacking: tuple[Kind, str] | None = None
    """The same between the runtime and Redis."""

    @property
    def wanted(self) -> int:
        """Pods that should serve."""
        return 0 if self.resource.spec.suspend else self.resource.spec.replicas

    @property
    def rolled_out(self) -> bool:
        """Whether every pod is of the current generation and serves."""
        runtime = self.runtime
        return (
            runtime is not None
            and self.settled
            and runtime.updated == runtime.ready == runtime.replicas == self.wanted
        )

    @property
    def settled(self) -> bool:
        """Whether the Deployment's status is about what was last asked of it."""
        runtime = self.runtime
        return (
            runtime is not None
            and runtime.observed_generation >= runtime.generation
            and runtime.wanted == self.wanted
        )


def picture(
    resource: InferenceService,
    children: Mapping[tuple[Kind, str], Observed],
    problems: tuple[Trouble, ...] = (),
    pending: Trouble | None = None,
    way_in: tuple[tuple[Kind, str], ...] = (),
) -> Picture:
    """The picture that the observed children make, those of a predecessor of the same name left out.

    `way_in` are the objects that a request to the URL goes through.
    """
    name, uid = resource.metadata.name, resource.metadata.uid
    redis = SERVICE, names.redis(name)
    pods = [observed.facts for (kind, _), observed in children.items() if kind == POD]
    return Picture(
        resource=resource,
        runtime=_deployment(children, names.runtime(name), uid),
        redis=_deployment(children, names.redis(name), uid),
        runtime_pods=_of(Component.RUNTIME, pods),
        redis_pods=_of(Component.REDIS, pods),
        problems=problems,
        pending=pending,
        lacking=next((key for key in way_in if _ours(children, key, uid) is None), None),
        redis_lacking=None if _ours(children, redis, uid) is not None else redis,
    )


def _ours(
    children: Mapping[tuple[Kind, str], Observed], key: tuple[Kind, str], uid: str | None
) -> Observed | None:
    observed = children.get(key)
    return observed if observed is not None and observed.owner == uid and not observed.deleting else None


def _deployment(
    children: Mapping[tuple[Kind, str], Observed], name: str, uid: str | None
) -> DeploymentFacts | None:
    observed = _ours(children, (DEPLOYMENT, name), uid)
    facts = observed.facts if observed is not None else None
    return facts if isinstance(facts, DeploymentFacts) else None


def _of(component: Component, pods: Iterable[object]) -> tuple[PodFacts, ...]:
    return tuple(pod for pod in pods if isinstance(pod, PodFacts) and pod.component == component)


def worst(pods: tuple[PodFacts, ...]) -> Trouble | None:
    """The trouble to tell: what somebody has to act upon before what may pass; always the same one."""
    troubles = [pod.trouble for pod in pods if pod.trouble is not None and not pod.ready]
    return min(troubles, key=lambda t: (t.reason not in HOPELESS, t.reason, t.message), default=None)
