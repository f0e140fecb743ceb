"""How long ago each watch was known to be alive.

The API server is asked to end each watch after a minute, and kopf opens the next one at once: so every
answered watch request proves its watch, whether or not anything happened in the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import aiohttp

ROUND_SECONDS = 60
"""How long one watch request lasts."""
STALE_SECONDS = 180.0
"""Three rounds in a row went wrong."""


class Freshness:
    """Times of the last answered watch request, by path."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answered: dict[str, float] = {}
        self._refused: set[str] = set()

    def has(self, paths: frozenset[str]) -> bool:
        """Whether each of these was answered at least once, if only with a refusal."""
        return paths <= self._answered.keys() | self._refused

    def closed(self, paths: frozenset[str]) -> bool:
        """Whether something of these is refused in every namespace."""
        return {_namespace(path) for path in paths} <= {_namespace(path) for path in paths & self._refused}

    def seen(self, path: str) -> None:
        self._answered[path] = self._clock()
        self._refused.discard(path)

    def refused(self, path: str) -> None:
        """It may not be watched: its namespace or our rights there are gone. It is no stale watch then."""
        self._answered.pop(path, None)
        self._refused.add(path)

    def age(self, paths: frozenset[str]) -> float | None:
        """Seconds since the stalest of these watches was answered; None before the first answer.

        Others do not count: the watch of an optional kind ends for good when its CRD is removed.
        """
        answered = [moment for path, moment in self._answered.items() if path in paths]
        return self._clock() - min(answered) if answered else None

    def trace(self) -> aiohttp.TraceConfig:
        """What tells about each answered request of a session."""
        config = aiohttp.TraceConfig()

        async def ended(
            session: aiohttp.ClientSession,  # noqa: ARG001  (aiohttp's signature)
            context: SimpleNamespace,  # noqa: ARG001
            parameters: aiohttp.TraceRequestEndParams,
        ) -> None:
            if parameters.response.status == 200 and "watch" in parameters.url.query:
                self.seen(parameters.url.path)

        config.on_request_end.append(ended)
        return config


def _namespace(path: str) -> str:
    """The namespace that a collection's path is of, empty for all of them."""
    return path.partition("/namespaces/")[2].partition("/")[0]
