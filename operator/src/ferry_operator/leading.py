"""What the leader does: take stock, then work through the queue, taking stock again from time to time."""

from __future__ import annotations

import asyncio
import logging
import time

from ferry_operator import labels
from ferry_operator.clients.api import KubernetesApi
from ferry_operator.errors import ApiError, Forbidden, NotFound, NotLeader
from ferry_operator.handlers.watching import Watcher
from ferry_operator.kinds import CHILDREN, INFERENCE_SERVICE, OPTIONAL, Kind
from ferry_operator.logs import whereabouts
from ferry_operator.metrics import Metrics
from ferry_operator.observing.facts import observe
from ferry_operator.observing.store import Key, Store
from ferry_operator.reconciling.queue import KeyedQueue
from ferry_operator.reconciling.reconciler import Reconciler
from ferry_operator.scaling.autoscaler import Autoscaler
from ferry_operator.settings import Settings

_log = logging.getLogger(__name__)
_RETRY = 1.0  # seconds between attempts to take stock
_GATHER = 1.0  # seconds in which watches that begin anew together are waited for


class Stock:
    """Lists everything in scope into the store: watches tell of changes, only a list of what is not there."""

    def __init__(self, api: KubernetesApi, store: Store, settings: Settings, metrics: Metrics) -> None:
        self._api = api
        self._store = store
        self._settings = settings
        self._metrics = metrics
        self._closed: set[str] = set()
        self.served: frozenset[Kind] = frozenset()

    def lose(self, kind: Kind) -> None:
        """The API server does not know an optional kind any more."""
        self.served -= {kind}

    async def take(self) -> None:
        """A namespace that may not be read is passed by: it may be gone, and its Role with it.

        :raises ApiError: when a list could not be had; what was listed before it is kept.
        """
        self.served = frozenset([kind for kind in OPTIONAL if await self._api.serves(kind)])
        for namespace in self._settings.namespaces or (None,):
            try:
                await self._everything(namespace)
            except Forbidden as error:
                if namespace is None:
                    raise
                self._close(namespace, error)
            else:
                self._open(namespace)
        self._metrics.services.set(len(self._store))
        self._metrics.closed_namespaces.set(len(self._closed))

    def _close(self, namespace: str, error: Forbidden) -> None:
        if namespace not in self._closed:
            _log.warning(
                "a namespace of the scope may not be read: nothing is done there",
                extra={"namespace": namespace, "error": str(error)},
            )
        self._closed.add(namespace)

    def _open(self, namespace: str | None) -> None:
        if namespace in self._closed:
            self._closed.discard(namespace)
            _log.info("a namespace of the scope may be read again", extra={"namespace": namespace})

    async def _everything(self, namespace: str | None) -> None:
        for kind in CHILDREN:
            if kind in OPTIONAL and kind not in self.served:
                continue
            try:
                await self._children(kind, namespace)
            except NotFound:
                if kind not in OPTIONAL:
                    raise
                self.lose(kind)  # its CRD was removed since it was asked for
        await self._resources(namespace)

    async def _children(self, kind: Kind, namespace: str | None) -> None:
        found, version = [], 0
        async for version, page in self._api.pages(kind, namespace, labels.WATCHED):  # noqa: B007  (used below)
            for live in page:
                child = self._store.known(kind, live["metadata"]) or observe(kind, live)
                found += [] if child is None else [child]
        self._store.keep_children(kind, found, namespace, version)

    async def _resources(self, namespace: str | None) -> None:
        found, version = [], 0
        async for version, page in self._api.pages(INFERENCE_SERVICE, namespace, ""):  # noqa: B007
            for resource in page:
                resource["metadata"].pop("managedFields", None)
                found.append(resource)
        self._store.keep_resources(found, namespace, version)


class Leader:
    """Runs while this process holds the Lease."""

    def __init__(
        self,
        *,
        stock: Stock,
        store: Store,
        queue: KeyedQueue,
        reconciler: Reconciler,
        watcher: Watcher,
        settings: Settings,
        metrics: Metrics,
        autoscaler: Autoscaler,
    ) -> None:
        self._autoscaler = autoscaler
        self._stock = stock
        self._store = store
        self._queue = queue
        self._reconciler = reconciler
        self._watcher = watcher
        self._settings = settings
        self._metrics = metrics

    async def lead(self) -> None:
        """Until cancelled. Nothing is written before everything has been listed once."""
        await self._take_stock()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._settings.workers):
                tasks.create_task(self._work())
            tasks.create_task(self._keep_taking_stock())
            tasks.create_task(self._autoscaler.run())

    async def _keep_taking_stock(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._settings.resync_seconds):
                    await self._watcher.relisted.wait()
                await asyncio.sleep(_GATHER)
            except TimeoutError:
                pass
            await self._take_stock()

    async def _take_stock(self) -> None:
        while True:
            # Before, not afterwards: a watch that begins anew meanwhile may be of what was listed already.
            self._watcher.relisted.clear()
            try:
                await self._stock.take()
                break
            except ApiError as error:
                _log.warning("cannot list what there is", extra={"error": str(error)})
                await asyncio.sleep(_RETRY)
        for key in self._store:
            self._queue.add(key)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                again = await self._one(key)
            except asyncio.CancelledError:
                self._queue.done(key)
                self._queue.add(key)  # for whoever leads next in this process
                raise
            if again is not None:
                self._queue.add_after(key, again)

    async def _one(self, key: Key) -> float | None:
        """One reconcile, its time and its outcome counted. A failure is the key's, never the process's."""
        started = time.perf_counter()
        context = {"resource": str(key)}
        try:
            again = await self._reconciler.reconcile(key)
        except (ApiError, NotLeader) as error:
            self._metrics.reconcile_errors.labels(type(error).__name__).inc()
            delay = self._queue.failed(key)
            _log.warning(
                "reconcile failed", extra={**context, "error": str(error), "retry_in": round(delay, 2)}
            )
            return None
        except Exception as error:  # noqa: BLE001  (one resource must not end the work on the others)
            self._metrics.reconcile_errors.labels("Bug").inc()
            self._queue.failed(key)
            _log.error("reconcile failed unexpectedly", extra={**context, "exception": whereabouts(error)})
            return None
        finally:
            self._metrics.reconcile_seconds.observe(time.perf_counter() - started)
            self._metrics.services.set(len(self._store))
        self._queue.done(key)
        return again
