"""Takes single steps against the API server, and says in a user's words what it refused."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ferry_operator import labels
from ferry_operator.clients.api import KubernetesApi
from ferry_operator.errors import Conflict, Forbidden, Invalid, Succession
from ferry_operator.kinds import Kind
from ferry_operator.observing.facts import controller, observe
from ferry_operator.observing.ownership import planned_digest
from ferry_operator.observing.pods import Trouble
from ferry_operator.observing.store import Store
from ferry_operator.plan.model import Manifest, Planned
from ferry_operator.reconciling import secrets
from ferry_operator.reconciling.decide import Create, Delete, Settled, Step, Update

_log = logging.getLogger(__name__)
_REFUSAL_SECONDS = 60.0  # an admission webhook may change its mind; a schema will not


@dataclass(frozen=True)
class _Refusal:
    """A manifest that the API server refused, and until when that counts as its answer."""

    digest: bytes
    until: float
    trouble: Trouble


@dataclass(frozen=True)
class Owner:
    """The InferenceService that steps are taken for."""

    namespace: str
    name: str
    uid: str
    new: bool = False
    """Whether it has no status yet, so that most likely nothing of it is there."""


class Executor:
    """Writes, and keeps the store abreast of what was written without waiting for the watch to tell."""

    def __init__(self, api: KubernetesApi, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._store = store
        self._clock = clock
        self._refusals: dict[tuple[str, Kind, str], _Refusal] = {}

    async def take(self, step: Step, owner: Owner, settled: Settled) -> Trouble | None:
        """Take one step. Returns what stands in its way for good; what may pass is raised.

        :raises ApiError: when the API server could not be asked.
        :raises Succession: when a predecessor's object has to go first.
        """
        planned = step.planned if isinstance(step, Create | Update) else None
        if planned is not None and (known := self._refused_lately(owner, planned)) is not None:
            return known
        try:
            if isinstance(step, Create):
                return await self._create(step.planned, owner, settled)
            if isinstance(step, Update):
                await self._apply(step.planned, settled, step.planned.manifest, force=step.force)
            if isinstance(step, Delete):
                observed = step.observed
                await self._api.delete(observed.kind, observed.namespace, observed.name, observed.uid)
                self._store.drop_child(observed)
        except Conflict as error:
            if planned is None or not error.of_fields:
                raise
            return self._remember(owner, planned, _name_conflict(planned, error.message))
        except Invalid as error:
            if planned is None:
                raise
            said = f"{planned.kind.kind} {planned.name} was refused: {error.message}"
            return self._remember(owner, planned, Trouble("Refused", said, planned.key))
        except Forbidden as error:
            if planned is None:
                raise
            if error.of_namespace:
                return self._remember(owner, planned, _namespace_going(planned, owner))
            message = f"{planned.kind.kind} {planned.name}: {error.message}"
            return Trouble("Forbidden", message, planned.key)
        return None

    def _refused_lately(self, owner: Owner, planned: Planned) -> Trouble | None:
        """The API server's last word on this very manifest, unless it is old: it is not asked in a loop."""
        refusal = self._refusals.get((owner.uid, *planned.key))
        if refusal is None or refusal.digest != planned_digest(planned.manifest):
            return None
        return refusal.trouble if self._clock() < refusal.until else None

    def _remember(self, owner: Owner, planned: Planned, trouble: Trouble) -> Trouble:
        until = self._clock() + _REFUSAL_SECONDS
        self._refusals[owner.uid, *planned.key] = _Refusal(planned_digest(planned.manifest), until, trouble)
        return trouble

    def forget(self, uid: str) -> None:
        """Drop what is remembered about a resource that is gone."""
        for key in [key for key in self._refusals if key[0] == uid]:
            del self._refusals[key]

    async def _create(self, planned: Planned, owner: Owner, settled: Settled) -> Trouble | None:
        """Write only where nothing has the name, or what has it is ours after all."""
        live = None if owner.new else await self._api.get(planned.kind, owner.namespace, planned.name)
        if live is None:
            drawn = {"data": secrets.contents(planned.generated)} if planned.generated else {}
            try:
                self._settle(planned, settled, await self._api.create({**planned.manifest, **drawn}))
            except Conflict:
                live = await self._api.get(planned.kind, owner.namespace, planned.name)
                if live is None:
                    raise  # gone this very moment: the next attempt finds nothing in its way
            else:
                return None
        holder = controller(live)
        if holder is not None and holder != owner.uid:
            raise Succession(planned.kind, planned.name)
        owned = holder == owner.uid
        if not owned and not _made_for(live, owner):
            return _name_conflict(planned, "it was not made by this operator")
        observed = observe(planned.kind, live)
        if observed is not None:
            self._store.put_child(observed)
        if planned.generated:
            if not owned or not _made_for(live, owner):
                kept = {"data": live["data"]} if live.get("data") else {}
                await self._apply(planned, settled, {**planned.manifest, **kept}, force=owned)
        elif observed is None or observed.digest != planned_digest(planned.manifest):
            await self._apply(planned, settled, planned.manifest, force=owned)
        return None

    async def _apply(self, planned: Planned, settled: Settled, manifest: Manifest, *, force: bool) -> None:
        self._settle(planned, settled, await self._api.apply(manifest, force=force))

    def _settle(self, planned: Planned, settled: Settled, live: Manifest) -> None:
        """Keep in mind what the API server made of it."""
        observed = observe(planned.kind, live)
        if observed is not None:
            self._store.put_child(observed)
            settled[planned.key] = (planned_digest(planned.manifest), observed.digest)
        _log.info(
            "applied",
            extra={"kind": planned.kind.kind, "object": f"{live['metadata']['namespace']}/{planned.name}"},
        )


def _made_for(live: Mapping[str, Any], owner: Owner) -> bool:
    """Whether an object without an owner was made for this name: retained, or orphaned on purpose."""
    found = live["metadata"].get("labels", {})
    return bool(found.get(labels.MANAGED_BY) == labels.MANAGER and found.get(labels.SERVICE) == owner.name)


def _namespace_going(planned: Planned, owner: Owner) -> Trouble:
    said = f"namespace {owner.namespace} is being deleted: nothing is made in it any more"
    return Trouble("NamespaceTerminating", said, planned.key)


def _name_conflict(planned: Planned, why: str) -> Trouble:
    return Trouble(
        "NameConflict",
        f"{planned.kind.kind} {planned.name} exists and is left alone ({why}): "
        "remove or rename it, or give this InferenceService another name",
        planned.key,
    )
