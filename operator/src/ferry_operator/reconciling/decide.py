"""From a plan and what is observed to the steps that make the second like the first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ferry_operator.kinds import APPLIED, CONFIG_MAP, DEPLOYMENT, REPLICA_SET, Kind
from ferry_operator.observing.facts import Observed, ReplicaSetFacts
from ferry_operator.observing.ownership import planned_digest
from ferry_operator.plan.model import Plan, Planned, Policy

Children = Mapping[tuple[Kind, str], Observed]


@dataclass(frozen=True)
class Create:
    """Not seen yet. What has the name is looked up before anything is written."""

    planned: Planned


@dataclass(frozen=True)
class Update:
    """Ours, but not as planned: drift, or a new plan. `force` takes fields back from other managers."""

    planned: Planned
    force: bool


@dataclass(frozen=True)
class Delete:
    """Ours, and no longer planned."""

    observed: Observed


@dataclass(frozen=True)
class Wait:
    """A predecessor's object, which Kubernetes is about to remove."""

    observed: Observed


Step = Create | Update | Delete | Wait


def subject(step: Step) -> tuple[Kind, str]:
    """Kind and name of the object that a step is about."""
    if isinstance(step, Create | Update):
        return step.planned.key
    return step.observed.kind, step.observed.name


Settled = dict[tuple[Kind, str], tuple[bytes, bytes | None]]
"""By object: digests of the last apply and of what the API server made of it.

It may spell a value in its own way; without this memory it would be told the same again for ever.
"""


def steps(plan: Plan, children: Children, uid: str, settled: Settled) -> list[Step]:
    """What there is to do, in order; nothing when all is as planned. `uid` is the InferenceService's."""
    found: list[Step] = []
    for planned in plan.objects:
        step = _step(planned, children.get(planned.key), uid, settled)
        if step is not None:
            found.append(step)
    planned_keys = {planned.key for planned in plan.objects}
    in_use = _configs_in_use(children)
    for key, observed in sorted(children.items(), key=lambda item: (item[0][0].plural, item[0][1])):
        if key not in planned_keys and observed.owner == uid and not observed.deleting and key not in in_use:
            found.append(Delete(observed))
    return found


def waves(todo: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """Steps that may be taken together: first what pods refer to, then the pods' Deployments and the rest."""
    before = APPLIED[: APPLIED.index(DEPLOYMENT)]
    first: list[Step] = [s for s in todo if isinstance(s, Create | Update) and s.planned.kind in before]
    return first, [step for step in todo if step not in first]


def _step(planned: Planned, observed: Observed | None, uid: str, settled: Settled) -> Step | None:
    if observed is None:
        return Create(planned)
    if observed.owner is not None and observed.owner != uid:
        return Wait(observed)
    if observed.deleting:
        return Wait(observed)
    owned = observed.owner == uid
    if planned.policy == Policy.CREATE_ONCE:
        return None if owned else Create(planned)
    wanted = planned_digest(planned.manifest)
    if observed.digest == wanted or settled.get(planned.key) == (wanted, observed.digest):
        return None
    return Update(planned, force=owned)


def _configs_in_use(children: Children) -> set[tuple[Kind, str]]:
    """Cold configurations that a ReplicaSet can still be asked to start pods from."""
    return {
        (CONFIG_MAP, name)
        for (kind, _), observed in children.items()
        if kind == REPLICA_SET and isinstance(observed.facts, ReplicaSetFacts)
        for name in observed.facts.configs
    }
