"""One operator process: its parts, how they are put together, and how they stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator

import uvloop
from aiohttp import web
from kubernetes.aio.client import ApiClient

from ferry_operator.clients.api import KubernetesApi
from ferry_operator.clients.connection import connect
from ferry_operator.clients.lease import Election, Leadership
from ferry_operator.errors import ApiError
from ferry_operator.handlers.freshness import Freshness
from ferry_operator.handlers.watching import Watcher
from ferry_operator.health import Contact, Health, application
from ferry_operator.kinds import APPLIED, INFERENCE_SERVICE, OBSERVED
from ferry_operator.leading import Leader, Stock
from ferry_operator.metrics import Metrics
from ferry_operator.observing.exported import exported
from ferry_operator.observing.store import Store
from ferry_operator.plan.inputs import Defaults
from ferry_operator.reconciling.queue import KeyedQueue
from ferry_operator.reconciling.reconciler import Reconciler
from ferry_operator.scaling.autoscaler import Autoscaler
from ferry_operator.settings import Rollout, Settings

_log = logging.getLogger(__name__)
_RESTART_SECONDS = 2.0


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT.

    When a part fails for good, all parts are started anew inside the same process: nothing but the store is
    lost, and that is listed again. So an API server that is away for an hour costs no restarts.
    """
    metrics = Metrics()
    while not _until_the_end(settings, metrics):
        _log.warning("starting again", extra={"in_seconds": _RESTART_SECONDS})


def _until_the_end(settings: Settings, metrics: Metrics) -> bool:
    """One life in an event loop of its own: whatever it leaves behind ends with it."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_life(settings, metrics))


async def _life(settings: Settings, metrics: Metrics) -> bool:
    """One life of all parts. Returns whether to stop for good."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    contact, freshness = Contact(), Freshness()
    health = Health(freshness, contact, watched=_watched(settings))
    async with _serving(settings, health, metrics):
        _listen(loop, stop)
        living = asyncio.create_task(_parts(settings, metrics, health, stop))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({living, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        try:
            await living
        except Exception:  # noqa: BLE001  (whatever it was, the next life starts from nothing)
            _log.exception("a part failed")
        if not stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _RESTART_SECONDS)
        return stop.is_set()


def _watched(settings: Settings) -> frozenset[str]:
    """Paths of the watches that must be open before this process knows what is going on."""
    namespaces: tuple[str | None, ...] = settings.namespaces or (None,)
    kinds = (INFERENCE_SERVICE, *APPLIED, *OBSERVED)
    return frozenset(kind.path(namespace) for kind in kinds for namespace in namespaces)


def _listen(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


async def _parts(settings: Settings, metrics: Metrics, health: Health, stop: asyncio.Event) -> None:
    """Put the parts together and run them until `stop` is set."""
    client = await connect(settings.identity)
    try:
        store, queue = Store(), KeyedQueue(metrics)
        leadership = Leadership(settings.lease_times, metrics)
        api = KubernetesApi(
            client,
            metrics,
            timeout=settings.request_timeout,
            write_timeout=settings.lease_times.write,
            may_write=leadership.check,
            answered=health.contact.made,
        )
        stock = Stock(api, store, settings, metrics)
        defaults = Defaults(
            runtime_image=settings.runtime_image,
            redis_image=settings.redis_image,
            cluster_domain=settings.cluster_domain,
            immediate_rollout=settings.rollout == Rollout.IMMEDIATE,
            monitor_labels=settings.monitor_labels,
        )
        reconciler = Reconciler(
            api,
            store,
            defaults,
            reporter=settings.identity,
            served=lambda: stock.served,
            lost=stock.lose,
        )
        watcher = Watcher(settings, store, queue, freshness=health.freshness, gone=reconciler.forget)
        autoscaler = Autoscaler(
            api, store, metrics=metrics, every=settings.scaling_seconds, reporter=settings.identity
        )
        leader = Leader(
            stock=stock,
            store=store,
            queue=queue,
            reconciler=reconciler,
            watcher=watcher,
            settings=settings,
            metrics=metrics,
            autoscaler=autoscaler,
        )
        election = Election(client, settings, leadership, answered=health.contact.made)
        with exported(store, metrics.registry):
            if await _type_is_served(api, stop):
                await _work(client, watcher, election, leader, stop)
    finally:
        await client.close()


async def _type_is_served(api: KubernetesApi, stop: asyncio.Event) -> bool:
    """Wait for the CRD: an operator may well be installed before it. False when told to stop meanwhile."""
    while not stop.is_set():
        with contextlib.suppress(ApiError):
            if await api.serves(INFERENCE_SERVICE):
                return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _RESTART_SECONDS)
    return False


async def _work(
    client: ApiClient, watcher: Watcher, election: Election, leader: Leader, stop: asyncio.Event
) -> None:
    """Watch, compete for the Lease, lead. Ends in the order: work, Lease, watches.

    kopf starts first: when it ends, it cancels every task that is younger than itself.
    """
    end_watching, started = asyncio.Event(), asyncio.Event()
    watching = asyncio.create_task(watcher.run(client, end_watching, started))
    electing: asyncio.Task[None] | None = None
    try:
        await _first(started, stop, watching)
        _listen(asyncio.get_running_loop(), stop)  # kopf has put handlers of its own in their place
        if not stop.is_set() and not watching.done():
            electing = asyncio.create_task(election.run(leader.lead))
            await _first(end_watching, stop, watching, electing)
    finally:
        if electing is not None:
            electing.cancel()
            await asyncio.gather(electing, return_exceptions=True)
            await election.release()
        end_watching.set()
        await asyncio.gather(watching, return_exceptions=True)
    for task in (watching, electing):
        if task is not None and task.done() and not task.cancelled():
            task.result()


async def _first(flag: asyncio.Event, stop: asyncio.Event, *tasks: asyncio.Task[None]) -> None:
    """Wait until one of the flags is set or one of the tasks has ended."""
    waits = [asyncio.create_task(flag.wait()), asyncio.create_task(stop.wait())]
    try:
        await asyncio.wait([*waits, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


@contextlib.asynccontextmanager
async def _serving(settings: Settings, health: Health, metrics: Metrics) -> AsyncIterator[None]:
    runner = web.AppRunner(application(health, metrics), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.http_host, settings.http_port)
        await site.start()
        _log.info("answering /livez, /readyz and /metrics", extra={"address": str(runner.addresses[0])})
        yield
    finally:
        await runner.cleanup()
