"""Looks at the load of each InferenceService that asks for it, and writes `replicas` through its scale."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import aiohttp
from pydantic import ValidationError

from ferry_api.resource import InferenceService
from ferry_api.spec.scaling import ScalingController
from ferry_api.validation import parse_stored
from ferry_operator.clients.api import KubernetesApi
from ferry_operator.errors import ApiError, NotLeader
from ferry_operator.kinds import POD
from ferry_operator.labels import Component
from ferry_operator.logs import whereabouts
from ferry_operator.metrics import Metrics
from ferry_operator.observing.facts import PodFacts
from ferry_operator.observing.store import Key, Resource, Store
from ferry_operator.scaling.decide import Bounds, History, Load, needed, wanted
from ferry_operator.scaling.scrape import scrape
from ferry_operator.status.write import event_about

_log = logging.getLogger(__name__)
_AT_ONCE = 32  # pods asked at a time

Scrape = Callable[[aiohttp.ClientSession, str], Awaitable[Load | None]]


class Autoscaler:
    """Nothing is kept that a successor would miss: the count is on the resource, the load in the pods."""

    def __init__(
        self,
        api: KubernetesApi,
        store: Store,
        *,
        metrics: Metrics,
        every: float,
        reporter: str,
        ask: Scrape = scrape,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._store = store
        self._metrics = metrics
        self._every = every
        self._reporter = reporter
        self._ask = ask
        self._clock = clock
        self._histories: dict[str, History] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Look every few seconds, until cancelled. What was seen before another led counts no more."""
        self._histories.clear()
        async with aiohttp.ClientSession() as session:
            while True:
                await asyncio.sleep(self._every)
                await self.look(session)

    async def look(self, session: aiohttp.ClientSession) -> None:
        """Scale whatever has to be scaled now. A failure is one resource's, and is tried at the next look."""
        scaled = [key for key in self._store if _scales(self._store.resource(key))]
        silent = await asyncio.gather(*(self._try(session, key) for key in scaled))
        self._metrics.unscaled.set(sum(silent))
        there = {resource["metadata"]["uid"] for key in scaled if (resource := self._store.resource(key))}
        self._histories = {uid: history for uid, history in self._histories.items() if uid in there}

    async def _try(self, session: aiohttp.ClientSession, key: Key) -> bool:
        """Returns whether a pod did not tell its load."""
        try:
            return await self._one(session, key)
        except (ApiError, NotLeader) as error:
            _log.warning("could not be scaled", extra={"resource": str(key), "error": str(error)})
        except Exception as error:  # noqa: BLE001  (one resource must not end the work on the others)
            _log.error("scaling failed", extra={"resource": str(key), "exception": whereabouts(error)})
        return False

    async def _one(self, session: aiohttp.ClientSession, key: Key) -> bool:
        resource = self._store.resource(key)
        bounds = _bounds(resource) if resource is not None else None
        if resource is None or bounds is None:
            return False
        pods = _serving(self._store, key)
        loads = await asyncio.gather(*(self._load(session, address) for address in pods))
        resource = self._store.resource(key)  # as it is after the pods have been asked
        if resource is None:
            return False
        current = resource["spec"].get("replicas", 1)
        count = self._count(resource["metadata"]["uid"], current, loads, bounds)
        if count != current:
            await self._api.scale(resource, count)
            await self._tell(resource, current, count, [load for load in loads if load is not None])
        return None in loads

    async def _load(self, session: aiohttp.ClientSession, address: str) -> Load | None:
        async with self._turns:
            return await self._ask(session, address)

    def _count(self, uid: str, current: int, loads: Sequence[Load | None], bounds: Bounds) -> int:
        """Replicas to have, by what the pods said. Silent ones may be busy: then nothing goes."""
        now = self._clock()
        history = self._histories.setdefault(uid, History(now))
        known = [load for load in loads if load is not None]
        need = needed(known, bounds)
        if len(known) < max(len(loads), 1):
            need = max(need, current)
        history.note(now, need)
        return wanted(current, need, bounds, history.highest(now, bounds.delay))

    async def _tell(self, resource: Resource, before: int, after: int, loads: Sequence[Load]) -> None:
        waiting, running = sum(load.waiting for load in loads), sum(load.running for load in loads)
        metadata = resource["metadata"]
        event = event_about(
            resource,
            (metadata["resourceVersion"], before, after),
            reason="ScaledUp" if after > before else "ScaledDown",
            message=f"replicas {before} to {after}: {waiting} requests wait and {running} run",
            now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            reporter=self._reporter,
        )
        await self._api.apply(event, force=True)
        _log.info("scaled", extra={"resource": f"{metadata['namespace']}/{metadata['name']}", "to": after})


def _scales(resource: Mapping[str, Any] | None) -> bool:
    if resource is None or "deletionTimestamp" in resource["metadata"]:
        return False
    spec = resource["spec"]
    asked = spec.get("scaling", {}).get("controller") == ScalingController.BUILTIN.value
    return asked and not spec.get("suspend", False)


def _bounds(resource: Mapping[str, Any]) -> Bounds | None:
    """What the spec says; None for one that this release cannot read, which its status tells."""
    try:
        parsed: InferenceService = parse_stored(resource)
    except ValidationError:
        return None
    scaling = parsed.spec.scaling
    if scaling is None:
        return None
    return Bounds(
        least=scaling.min_replicas,
        most=scaling.max_replicas,
        waiting=scaling.target.queued_requests,
        slots=parsed.spec.batching.max_batch_size,
        delay=scaling.scale_down_delay.seconds,
    )


def _serving(store: Store, key: Key) -> list[str]:
    """Addresses of the runtime's pods that are ready."""
    pods = [child.facts for (kind, _), child in store.children(key).items() if kind == POD]
    return [
        pod.address
        for pod in pods
        if isinstance(pod, PodFacts) and pod.component == Component.RUNTIME and pod.ready and pod.address
    ]
