"""kopf's watches of the resource and of everything made for it, feeding the store and the queue.

`on.event` handlers only: they leave no annotation and no finalizer, so a stopped operator holds nothing up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import kopf
from kubernetes.aio.client import ApiClient

from ferry_operator import labels
from ferry_operator.handlers.freshness import ROUND_SECONDS, Freshness
from ferry_operator.handlers.session import connected
from ferry_operator.kinds import CHILDREN, INFERENCE_SERVICE, Kind
from ferry_operator.observing.facts import observe
from ferry_operator.observing.store import Store
from ferry_operator.reconciling.queue import KeyedQueue
from ferry_operator.settings import Settings

_BACKOFFS = (1, 1, 2, 3, *(5,) * 20)  # seconds: an API server that is back is found within five


class Watcher:
    """Runs kopf until it is stopped.

    `relisted` is set whenever a watch had to begin anew: what was deleted in between was told by nobody.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        queue: KeyedQueue,
        *,
        freshness: Freshness,
        gone: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._queue = queue
        self._freshness = freshness
        self._gone = gone
        self.relisted = asyncio.Event()

    async def run(self, client: ApiClient, stop: asyncio.Event, ready: asyncio.Event) -> None:
        """Watch until `stop` is set.

        :raises Exception: kopf's, when a watch cannot go on; the caller starts everything again.
        """
        await kopf.operator(
            registry=self._registry(client),
            settings=_kopf_settings(self._settings),
            standalone=True,
            clusterwide=self._settings.cluster_wide,
            namespaces=self._settings.namespaces,
            stop_flag=stop,
            ready_flag=ready,
        )

    def _registry(self, client: ApiClient) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:
            return await connected(client, self._freshness)

        self._on_resource(registry)
        for kind in CHILDREN:
            self._on_child(registry, kind)
        return registry

    def _on_resource(self, registry: kopf.OperatorRegistry) -> None:
        kind = INFERENCE_SERVICE

        @kopf.on.event(kind.group, kind.version, kind.plural, registry=registry)
        async def resource(event: kopf.RawEvent, **_: Any) -> None:
            body = _light(event["object"])
            self._note_relisting(event)
            if event["type"] == "DELETED":
                self._queue.forget(self._store.drop_resource(body))
                self._gone(body["metadata"]["uid"])
            elif (asked := self._store.put_resource(body)) is not None:
                self._queue.add(asked.key, first=asked.by_user)

    def _on_child(self, registry: kopf.OperatorRegistry, kind: Kind) -> None:
        @kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=f"child-{kind}")
        async def child(event: kopf.RawEvent, **_: Any) -> None:
            self._note_relisting(event)
            deleted = event["type"] == "DELETED"
            if not deleted and self._store.known(kind, event["object"]["metadata"]):
                return  # the echo of the operator's own write, or listed already
            observed = observe(kind, event["object"])
            if observed is None:
                return
            if deleted:
                self._queue.add(self._store.drop_child(observed))
            else:
                for key in self._store.put_child(observed):
                    self._queue.add(key)

    def _note_relisting(self, event: kopf.RawEvent) -> None:
        if event["type"] is None:
            self.relisted.set()


def _light(body: Any) -> dict[str, Any]:
    """The resource without what nobody here reads; some hundreds of them are kept."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    return {**body, "metadata": metadata}


class _NoDiffBase(kopf.DiffBaseStorage):
    """kopf compares each object with its former self for handlers that we do not have.

    It copies every object of every event for that, a sixth of the process's work.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        return cast(kopf.BodyEssence, {})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        """Nothing is ever kept on an object."""


def _kopf_settings(settings: Settings) -> kopf.OperatorSettings:
    configured = kopf.OperatorSettings()
    configured.posting.enabled = False
    configured.persistence.diffbase_storage = _NoDiffBase()
    # In namespaced scope nothing is asked of the cluster as a whole, CRDs and namespaces included.
    configured.scanning.disabled = not settings.cluster_wide
    configured.watching.server_timeout = ROUND_SECONDS
    configured.watching.inactivity_timeout = ROUND_SECONDS + 30
    configured.watching.chunk_size = 100
    configured.queueing.idle_timeout = 0.1  # a worker per object is not kept waiting
    configured.networking.request_timeout = settings.request_timeout
    configured.networking.error_backoffs = _BACKOFFS
    for kind in CHILDREN:
        configured.watching.label_selectors[kind.group, kind.version, kind.plural] = labels.WATCHED
    return configured
