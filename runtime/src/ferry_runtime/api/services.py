"""What the API needs from the rest of the runtime, handed over once when the app is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fastapi import APIRouter
from prometheus_client import CollectorRegistry

from ferry_api.runtime_config import RuntimeConfig
from ferry_runtime.api.auth.policy import AuthPolicy
from ferry_runtime.api.body import BodyLimits
from ferry_runtime.api.dashboard.bundle import Bundle
from ferry_runtime.api.recent import RecentRequests
from ferry_runtime.api.summary import Summary
from ferry_runtime.cache.control import CacheControl
from ferry_runtime.engine.protocol import Backend
from ferry_runtime.generation import Pipeline
from ferry_runtime.metrics import Metrics
from ferry_runtime.text.model import TextModel

if TYPE_CHECKING:
    from ferry_runtime.tracing.spans import Tracing


class Lifecycle(Protocol):
    """Where this process stands between start and stop."""

    @property
    def phase(self) -> str:
        """One word for /health, such as loading, ready or draining."""
        ...

    @property
    def ready(self) -> bool:
        """Whether new traffic may come: the engine has generated and nothing is draining."""
        ...

    @property
    def live(self) -> bool:
        """False only for what a new process might mend."""
        ...

    @property
    def draining(self) -> bool: ...

    @property
    def reason(self) -> str:
        """Why it is not ready, in a sentence for users; empty when it is."""
        ...


class Embedder(Protocol):
    """Texts to unit vectors, outside of this process."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Sequence[tuple[Sequence[float], int]]:
        """A vector and the number of tokens for each text, in order.

        Raises InvalidRequest for a text longer than the model reads, Overloaded,
        EmbedderUnavailable, RequestFailed.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Callables give the newest value; ``text`` and ``backend.info`` raise EngineNotReady until the
    model is there. ``routers`` are further parts' routes, each listed in `auth.access` or admin-only.
    """

    pipeline: Pipeline
    backend: Backend
    text: Callable[[], TextModel]
    config: Callable[[], RuntimeConfig]
    lifecycle: Lifecycle
    auth: AuthPolicy
    registry: CollectorRegistry
    metrics: Metrics
    embedder: Embedder | None = None
    cache: Callable[[], CacheControl | None] = lambda: None
    store_status: Callable[[], Mapping[str, Any]] = lambda: {"state": "disabled"}
    batch_size: Callable[[], float] = lambda: 0.0  # mean rows in a decode batch so far
    config_problem: Callable[[], str | None] = lambda: None  # why newer configuration is not applied
    bundle: Bundle = field(default_factory=Bundle)  # the dashboard's page
    path_prefix: str = ""  # that a proxy in front leaves in the paths, such as /team-a
    recent: RecentRequests = field(default_factory=RecentRequests)
    summary: Summary = field(default_factory=Summary)
    routers: tuple[APIRouter, ...] = ()
    body: BodyLimits = field(default_factory=BodyLimits)
    tracing: Tracing | None = None
    write_timeout_seconds: float = 60.0  # a client that reads nothing for so long has left

    @property
    def model_name(self) -> str:
        return self.config().cold.model.served_name
