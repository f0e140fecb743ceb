"""What the kubelet and Prometheus ask the process: /livez, /readyz, /metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from ferry_operator.handlers.freshness import STALE_SECONDS, Freshness
from ferry_operator.metrics import Metrics

_SILENCE_SECONDS = 15.0  # the Lease is asked for each second, so this is many answers missed


class Contact:
    """When the API server last answered anything."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = float("-inf")

    def made(self) -> None:
        self._last = self._clock()

    @property
    def recent(self) -> bool:
        return self._clock() - self._last < _SILENCE_SECONDS


@dataclass
class Health:
    """Whether the process should be restarted, and whether it does its work.

    A restart heals a watch that is stuck while the API server answers. It does not heal an unreachable API
    server: then the process is not ready, and waits.
    """

    freshness: Freshness
    contact: Contact
    watched: frozenset[str]
    """Paths of the watches that have to be open."""

    def age(self) -> float | None:
        """Seconds since the stalest watch was heard of."""
        return self.freshness.age(self.watched)

    def alive(self) -> str | None:
        """Why to restart; None: all is well."""
        age = self.age()
        if self.contact.recent and age is not None and age > STALE_SECONDS:
            return f"a watch has been silent for {age:.0f} s while the API server answers"
        return None

    def ready(self) -> str | None:
        """Why not ready; None: ready, as leader or as standby."""
        if not self.contact.recent:
            return "the API server does not answer"
        if not self.freshness.has(self.watched):
            return "not every watch is open yet"
        if self.freshness.closed(self.watched):
            return "no namespace of the scope may be watched: each is gone, or its Role does not allow it"
        return None


def application(health: Health, metrics: Metrics) -> web.Application:
    """The HTTP server's routes."""

    async def livez(_: web.Request) -> web.Response:
        return _answer(health.alive())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(health.ready())

    async def exposition(_: web.Request) -> web.Response:
        metrics.watch_age.set(health.age() or 0.0)
        return web.Response(body=metrics.exposition(), headers={"Content-Type": "text/plain; version=0.0.4"})

    app = web.Application()
    app.router.add_get("/livez", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", exposition)
    return app


def _answer(trouble: str | None) -> web.Response:
    return web.Response(text="ok\n") if trouble is None else web.Response(status=503, text=f"{trouble}\n")
