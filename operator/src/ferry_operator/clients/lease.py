"""Who may write: one operator at a time, agreed upon by a Lease.

`kubernetes.aio.leaderelection` supplies the protocol. Its calls have no time limits, and it trusts that a
cancelled leader has stopped; here every call is limited, and every write asks `Leadership.check` first.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, CoordinationV1Api, V1Lease, V1ObjectMeta
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.leaderelection import electionconfig, leaderelection
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

from ferry_operator.errors import NotLeader
from ferry_operator.metrics import Metrics
from ferry_operator.settings import LeaseTimes, Settings

_log = logging.getLogger(__name__)
_FAILURES = (aiohttp.ClientError, TimeoutError, ssl.SSLError, OSError)


class Leadership:
    """Whether this process may write at this moment.

    It may from one successful renewal until `LeaseTimes.renew` seconds after that renewal was *sent*: no
    clock is compared with another machine's, and a process that was stopped finds its time run out.
    """

    def __init__(
        self, times: LeaseTimes, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._times = times
        self._metrics = metrics
        self._clock = clock
        self._until = float("-inf")

    @property
    def held(self) -> bool:
        return self._clock() < self._until

    def renewed(self, sent: float) -> None:
        self._until = sent + self._times.renew
        self._metrics.leader.set(1)

    def lost(self) -> None:
        self._until = float("-inf")
        self._metrics.leader.set(0)

    def check(self) -> None:
        """:raises NotLeader: when another operator may hold the Lease."""
        if not self.held:
            raise NotLeader("not the leader (any more): nothing was written")

    def now(self) -> float:
        return self._clock()


class _TimedLock(LeaseLock):  # type: ignore[misc]
    """The library's lock with a time limit on each call, reporting renewals to a `Leadership`."""

    def __init__(
        self, client: ApiClient, settings: Settings, leadership: Leadership, answered: Callable[[], None]
    ) -> None:
        super().__init__(settings.lease_name, settings.namespace, settings.identity, client)
        self._leadership = leadership
        self._answered = answered
        self._limit = settings.lease_times.renew / 2

    async def get(self, name: str, namespace: str) -> tuple[bool, Any]:
        try:
            async with asyncio.timeout(self._limit):
                found: tuple[bool, Any] = await super().get(name, namespace)
        except _FAILURES as error:
            return False, ApiException(status=0, reason=type(error).__name__)
        self._answered()
        return found

    async def create(self, name: str, namespace: str, election_record: Any) -> bool:
        # Not the library's own: it passes `pretty=True`, which its generated client refuses since release 37.
        body = V1Lease(metadata=V1ObjectMeta(name=name), spec=self.update_lease(election_record))
        return await self._write(self._created(namespace, body))

    async def _created(self, namespace: str, body: V1Lease) -> bool:
        try:
            await self.api_instance.create_namespaced_lease(namespace, body)
        except ApiException:
            return False  # another candidate was quicker, or the role does not allow it: seen at the next try
        return True

    async def update(self, name: str, namespace: str, updated_record: Any) -> bool:
        return await self._write(super().update(name, namespace, updated_record))

    async def _write(self, call: Awaitable[bool]) -> bool:
        sent = self._leadership.now()
        try:
            async with asyncio.timeout(self._limit):
                written = await call
        except _FAILURES:
            written = False
        if written:
            self._leadership.renewed(sent)
        return written


class Election:
    """Competes for the Lease for as long as the process lives."""

    def __init__(
        self, client: ApiClient, settings: Settings, leadership: Leadership, answered: Callable[[], None]
    ) -> None:
        self._api = CoordinationV1Api(client)
        self._leadership = leadership
        self._times = settings.lease_times
        self._lock = _TimedLock(client, settings, leadership, answered)

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run `lead` whenever the Lease is held, cancel it when it is lost, compete again.

        :raises Exception: whatever `lead` raised; its failure is the process's.
        """
        while True:
            await self._round(lead)
            self._leadership.lost()
            _log.warning("the Lease was lost; competing again")

    async def _round(self, lead: Callable[[], Awaitable[None]]) -> None:
        elected = asyncio.Event()

        async def started() -> None:
            _log.info("this operator holds the Lease now")
            elected.set()

        async def work() -> None:
            await elected.wait()
            await lead()

        config = electionconfig.Config(
            self._lock,
            lease_duration=self._times.lease,
            renew_deadline=self._times.renew,
            retry_period=self._times.retry,
            onstarted_leading=started,
            onstopped_leading=None,
        )
        contest = asyncio.create_task(leaderelection.LeaderElection(config).run())
        working = asyncio.create_task(work())
        try:
            done, _ = await asyncio.wait({contest, working}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            contest.cancel()
            working.cancel()
            await asyncio.gather(contest, working, return_exceptions=True)

    async def release(self) -> None:
        """Give the Lease up, so that a successor need not wait for it to run out."""
        if not self._leadership.held:
            return
        self._leadership.lost()
        try:
            async with asyncio.timeout(self._times.renew / 2):
                lease = await self._api.read_namespaced_lease(self._lock.name, self._lock.namespace)
                if lease.spec.holder_identity != self._lock.identity:
                    return
                unheld = {
                    "metadata": {"resourceVersion": lease.metadata.resource_version},
                    "spec": {"holderIdentity": None},
                }
                await self._api.patch_namespaced_lease(self._lock.name, self._lock.namespace, unheld)
        except (ApiException, *_FAILURES):
            _log.warning("the Lease could not be given up; it runs out by itself")
