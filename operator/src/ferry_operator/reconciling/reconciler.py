"""One level-triggered reconcile: read what is known, plan, take the steps, say what is so.

It never looks at what happened, only at what is; so it may be called at any time, any number of times.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from ferry_api.resource import InferenceService
from ferry_api.validation import parse_stored
from ferry_operator.clients.api import KubernetesApi
from ferry_operator.errors import ApiError, Forbidden, NotFound, StepFailed, Succession
from ferry_operator.kinds import DEPLOYMENT, INFERENCE_SERVICE, OPTIONAL, SECRET, Kind
from ferry_operator.logs import whereabouts
from ferry_operator.observing.facts import ClaimFacts, DeploymentFacts, SecretFacts
from ferry_operator.observing.pods import Trouble, cut
from ferry_operator.observing.store import Key, Resource, Store
from ferry_operator.plan import exposure, names
from ferry_operator.plan.build import build_plan
from ferry_operator.plan.inputs import Defaults, Inputs, InUse
from ferry_operator.plan.model import Policy
from ferry_operator.plan.volumes import user_secrets
from ferry_operator.reconciling.decide import Create, Settled, Step, Wait, steps, subject, waves
from ferry_operator.reconciling.execute import Executor, Owner
from ferry_operator.reconciling.secrets import missing
from ferry_operator.status.picture import picture
from ferry_operator.status.write import events, invalid_status, status

_log = logging.getLogger(__name__)
_SOON = 1.0  # seconds, until what Kubernetes is removing should be gone
_LATER = 15.0  # seconds, until what a user has to do may be done; no watch tells
_UNKNOWN = (404, 405)  # what an API server answers whose CRD of a kind has been removed


@dataclass(frozen=True)
class _Taken:
    """What came of taking steps: what stands in the way, and when to look again."""

    problems: tuple[Trouble, ...] = ()
    again: float | None = None
    pending: Trouble | None = None
    """Why steps were left for later, if they were."""
    failed: ApiError | None = None
    """What is to be raised once the status tells of it."""


class Reconciler:
    """Reconciles one InferenceService at a time per key; the queue sees to that."""

    def __init__(
        self,
        api: KubernetesApi,
        store: Store,
        defaults: Defaults,
        *,
        reporter: str,
        served: Callable[[], frozenset[Kind]] = frozenset,
        lost: Callable[[Kind], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._store = store
        self._defaults = defaults
        self._executor = Executor(api, store)
        self._reporter = reporter
        self._served = served
        self._lost = lost
        self._now = now
        self._settled: dict[str, Settled] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Make one InferenceService so. Returns after how many seconds to look again, if news will not come.

        :raises ApiError: when it has to be tried again; the status tells why, as far as it could be written.
        """
        resource = self._store.resource(key)
        if resource is None or "deletionTimestamp" in resource["metadata"]:
            return None
        parsed = await self._read(resource)
        if parsed is None:
            return None
        try:
            todo = self._plan(parsed)
        except Exception as error:  # noqa: BLE001  (whatever it is, the user learns that nothing will come)
            _log.error("cannot plan", extra={"resource": str(key), "exception": whereabouts(error)})
            await self._report(key, parsed, (_unplannable(error),))
            return None
        taken = _Taken()
        if todo:
            fresh = await self._fresh(key, resource)
            if fresh is None:
                return None
            if fresh["metadata"]["generation"] != resource["metadata"]["generation"]:
                return await self.reconcile(key)
            parsed = await self._read(fresh)
            if parsed is None:
                return None
            taken = await self._take(key, parsed, todo)
        failed = taken.failed
        unmet: tuple[Trouble, ...] = ()
        try:
            unmet = await self._missing_secrets(key, parsed)
        except ApiError as error:
            failed = failed or error
        lacking = exposure.unserved(self._inputs(parsed))
        gateway = (Trouble("GatewayNotInstalled", lacking),) if lacking else ()
        problems = (*taken.problems, *unmet, *gateway)
        await self._report(key, parsed, problems, taken.pending)
        if failed is not None:
            raise failed
        return taken.again if taken.again is not None or not problems else _LATER

    async def _read(self, resource: Resource) -> InferenceService | None:
        """The typed resource. None where this release cannot read it, which its status says then."""
        try:
            return parse_stored(resource)
        except ValidationError as error:
            await self._write_status(resource, self._unreadable(resource, error))
            return None

    def _plan(self, parsed: InferenceService) -> list[Step]:
        plan = build_plan(self._inputs(parsed))
        uid = parsed.metadata.uid or ""
        children = self._store.children(_key(parsed))
        return steps(plan, children, uid, self._settled.setdefault(uid, {}))

    def _inputs(self, parsed: InferenceService) -> Inputs:
        name = parsed.metadata.name
        children = self._store.children(_key(parsed))
        secret = children.get((SECRET, names.redis(name)))
        usable = secret is not None and not secret.deleting and secret.owner == parsed.metadata.uid
        facts = secret.facts if secret is not None and usable else None
        return Inputs(
            resource=parsed,
            defaults=self._defaults,
            served=self._served(),
            runtime_in_use=self._in_use(parsed, names.runtime(name)),
            redis_in_use=self._in_use(parsed, names.redis(name)),
            redis_auth=facts.fingerprint if isinstance(facts, SecretFacts) else None,
            claimed={
                child.name: child.facts.size
                for child in children.values()
                if isinstance(child.facts, ClaimFacts) and child.facts.size is not None
            },
        )

    def _in_use(self, parsed: InferenceService, deployment: str) -> InUse | None:
        observed = self._store.children(_key(parsed)).get((DEPLOYMENT, deployment))
        if observed is None or not isinstance(observed.facts, DeploymentFacts):
            return None
        return InUse(observed.facts.default_image, observed.facts.config)

    async def _fresh(self, key: Key, known: Resource) -> Resource | None:
        """The resource as it is now, before anything is written for it: it may be going already."""
        live = await self._api.get(INFERENCE_SERVICE, *key)
        if live is None or live["metadata"]["uid"] != known["metadata"]["uid"]:
            return None
        self._store.put_resource(live)
        return None if "deletionTimestamp" in live["metadata"] else live

    async def _take(self, key: Key, parsed: InferenceService, todo: list[Step]) -> _Taken:
        """Take the steps; what is drawn at random first, since the rest is planned from it."""
        uid = parsed.metadata.uid or ""
        owner = Owner(key.namespace, key.name, uid, new=not parsed.status.conditions)
        settled = self._settled.setdefault(uid, {})
        drawn = [s for s in todo if isinstance(s, Create) and s.planned.policy == Policy.CREATE_ONCE]
        problems: list[Trouble] = []
        try:
            problems += await self._together(drawn, owner, settled)
            if problems:
                return _Taken(tuple(problems))
            if drawn:
                todo = self._plan(parsed)
            waiting = [step for step in todo if isinstance(step, Wait)]
            for step in waiting:
                if step.observed.kind == SECRET:
                    return _Taken(again=_SOON, pending=_removal(step.observed.kind, step.observed.name))
            for wave in waves(todo):
                problems += await self._together(wave, owner, settled)
        except Succession as error:
            _log.info("waiting", extra={"reason": str(error)})
            return _Taken(tuple(problems), _SOON, _removal(error.kind, error.name))
        except StepFailed as error:
            return _Taken(tuple(problems), pending=_failure(error), failed=error.cause)
        return _Taken(tuple(problems), _SOON if waiting else None)

    async def _together(self, wave: Sequence[Step], owner: Owner, settled: Settled) -> list[Trouble]:
        """Take steps that do not depend on one another; each is tried, whatever becomes of the others."""
        taken = await asyncio.gather(
            *(self._executor.take(step, owner, settled) for step in wave), return_exceptions=True
        )
        failures: list[BaseException] = []
        for step, found in zip(wave, taken, strict=True):
            if isinstance(found, ApiError):
                kind, name = subject(step)
                if found.status in _UNKNOWN and kind in OPTIONAL:
                    self._lost(kind)
                else:
                    failures.append(StepFailed(kind, name, found))
            elif isinstance(found, BaseException):
                failures.append(found)
        if failures:
            raise min(failures, key=lambda failure: isinstance(failure, StepFailed))
        return [found for found in taken if isinstance(found, Trouble)]

    async def _missing_secrets(self, key: Key, parsed: InferenceService) -> tuple[Trouble, ...]:
        """Secrets of the user's that pods wait for, and entries of them; asked for without their contents."""
        needed = user_secrets(parsed)
        if not needed or picture(parsed, self._store.children(key)).rolled_out:
            return ()
        found = [
            missing(wanted, await self._api.get_metadata(SECRET, key.namespace, wanted.name))
            for wanted in needed
        ]
        return tuple(trouble for trouble in found if trouble is not None)

    async def _report(
        self,
        key: Key,
        parsed: InferenceService,
        problems: tuple[Trouble, ...],
        pending: Trouble | None = None,
    ) -> None:
        resource = self._store.resource(key)
        if resource is None:
            return
        inputs = self._inputs(parsed)
        seen = picture(parsed, self._store.children(key), problems, pending, exposure.way_in(inputs))
        await self._write_status(resource, status(seen, exposure.url(inputs), self._stamp()))

    async def _write_status(self, resource: Resource, wanted: dict[str, Any]) -> None:
        """Write the status if it says something new, its events first: neither is lost by a crash between."""
        if wanted == resource.get("status"):
            return
        metadata = {name: resource["metadata"][name] for name in ("name", "namespace", "uid")}
        for event in events(resource, wanted, self._stamp(), self._reporter):
            await self._tell(event)
        manifest = {
            "apiVersion": INFERENCE_SERVICE.api_version,
            "kind": INFERENCE_SERVICE.kind,
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "status": wanted,
        }
        try:
            written = await self._api.apply(manifest, force=True, subresource="status")
        except NotFound:
            return  # deleted meanwhile: there is nobody to tell
        self._store.put_resource(written)

    async def _tell(self, event: dict[str, Any]) -> None:
        """An Event is a courtesy: without it the status is still true."""
        try:
            await self._api.apply(event, force=True)
        except ApiError as error:
            if isinstance(error, Forbidden) and error.of_namespace:
                return
            _log.warning("an Event could not be written", extra={"error": str(error)})

    def _unreadable(self, resource: Resource, error: ValidationError) -> dict[str, Any]:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"{where}: {first['msg']}: this release of the operator cannot read it"
        generation = resource["metadata"]["generation"]
        return invalid_status(resource.get("status", {}), generation, message, self._stamp())

    def _stamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def forget(self, uid: str) -> None:
        """Drop what is remembered about a resource that is gone."""
        self._settled.pop(uid, None)
        self._executor.forget(uid)


def _removal(kind: Kind, name: str) -> Trouble:
    """Nothing of the current generation is made until this has gone."""
    message = f"{kind.kind} {name} is being removed; what needs it is made afterwards"
    return Trouble("WaitingForRemoval", message, (kind, name))


def _failure(error: StepFailed) -> Trouble:
    """What could not be written for now, in words that stay the same while it fails the same way."""
    cause = error.cause
    why = f"{cause.status} {cause.reason}: {cause.message}" if cause.status else "no answer in time"
    return Trouble(
        "ApplyFailed",
        cut(f"{error.kind.kind} {error.name} could not be written, and is tried again: {why}"),
        (error.kind, error.name),
    )


def _unplannable(error: Exception) -> Trouble:
    return Trouble(
        "PlanFailed",
        f"this spec cannot be turned into Kubernetes objects ({type(error).__name__}): look for a part of "
        "podTemplate that has another shape than a pod's; if there is none, it is a fault of the operator",
    )


def _key(parsed: InferenceService) -> Key:
    return Key(parsed.metadata.namespace or "", parsed.metadata.name)
