"""The composition root: from a configuration to a served model, every part made and joined here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI

from ferry_api.runtime_config import RuntimeConfig
from ferry_runtime.api.app import create_app
from ferry_runtime.api.auth.files import KeyFiles
from ferry_runtime.api.auth.policy import AuthPolicy, KeyPolicy, OpenPolicy
from ferry_runtime.api.services import Services
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.caching import ServiceCache, StoreChoice, served_model
from ferry_runtime.configuration import LiveConfiguration
from ferry_runtime.embedding.client import EmbeddingClient
from ferry_runtime.embedding.openai import TextEmbedder
from ferry_runtime.engine.protocol import EngineState
from ferry_runtime.engines import make_backend, needs_weights
from ferry_runtime.errors import EngineNotReady
from ferry_runtime.metrics import Metrics
from ferry_runtime.models.client import prepare_model
from ferry_runtime.models.prepared import PreparedModel
from ferry_runtime.models.progress import Progress
from ferry_runtime.pipeline import ServingPipeline
from ferry_runtime.settings import Secrets
from ferry_runtime.startup import DeferredBackend, StartingLifecycle, describe
from ferry_runtime.text.model import TextModel

if TYPE_CHECKING:
    from ferry_runtime.tracing.spans import Tracing

logger = logging.getLogger(__name__)

# A stage's words and its fraction from 0 to 1, None where that is not known.
OnProgress = Callable[[str, float | None], None]


def _ignore(stage: str, fraction: float | None) -> None:
    """For callers that show nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What differs between a pod and somebody's machine.

    ``local``: only this machine can connect, and no keys were given, so nobody is asked for one.
    """

    cache_dir: Path
    secrets: Secrets
    store: StoreChoice
    namespace: str = ""  # of the resource: keeps services apart that share a store
    local: bool = False
    tracing: Tracing | None = None  # stopped with the service
    path_prefix: str = ""  # see `settings.path_prefix`


class Service:
    """``app`` answers from the start; `start` loads the model behind it."""

    def __init__(
        self, live: LiveConfiguration, around: Surroundings, on_progress: OnProgress = _ignore
    ) -> None:
        self._live = live
        self._around = around
        self._on_progress = on_progress
        self._watch: asyncio.Task[None] | None = None
        self._text: TextModel | None = None
        self._served: ServedModel | None = None
        self.model: PreparedModel | None = None
        self.backend = DeferredBackend()
        self.embedder = EmbeddingClient()
        self.metrics = Metrics()
        self.caching = ServiceCache(
            around.store,
            namespace=around.namespace or live.config.cold.model.served_name,
            config=lambda: self._live.config,
            model=self._served_model,
            embedder=self.embedder,
            registry=self.metrics.registry,
            idle=lambda: self.pipeline.idle,
        )
        self.pipeline = ServingPipeline(
            backend=self.backend,
            batching=live.config.cold.batching,
            hot=live.config.hot,
            metrics=self.metrics,
            cache=self.caching.cache,
            tracing=around.tracing,
        )
        self.lifecycle = StartingLifecycle(
            self.backend, self.pipeline, lambda: self._live.config.hot.drain_timeout_seconds
        )
        self.app = self._make_app()

    @property
    def config(self) -> RuntimeConfig:
        return self._live.config

    async def start(self) -> None:
        """Prepare and load the model; returns when it has generated its first tokens.

        Raises ModelPreparationError or EngineLoadError with a sentence for the user.
        """
        self._watch = asyncio.create_task(self._live.watch(self._apply))
        try:
            await self.caching.start()
            await self._start_engine()
        except Exception as error:
            self.backend.fail(str(error))
            raise
        self.backend.stage = "ready"

    async def stop(self) -> None:
        """End every part, in the order in which they depend on each other."""
        if self._watch is not None:
            self._watch.cancel()
        await self.pipeline.stop()
        await self.caching.stop()
        await asyncio.gather(self.backend.stop(), self.embedder.stop())
        if self._around.tracing is not None:
            await self._around.tracing.stop()

    def _served_model(self) -> ServedModel | None:
        """What answers, for the cache's identity; None until it is loaded. While the engine is being
        restarted it stays what it was, so that what is stored can still be served."""
        if self.model is not None and self.backend.state is EngineState.READY:
            self._served = served_model(self.config.cold, self.model.digest, self.backend.info)
        return self._served

    async def _start_engine(self) -> None:
        cold = self.config.cold
        model = await prepare_model(
            cold.model.source,
            self._around.cache_dir,
            token=self._around.secrets.hub_token,
            weights=needs_weights(cold),
            report=self._preparing,
        )
        self.model = model
        self._stage("reading the tokenizer", None)
        self._text = await asyncio.to_thread(TextModel.load, model.path)
        backend = make_backend(
            cold,
            model,
            self._text,
            upstream_key=self._around.secrets.upstream_key,
            on_progress=self._stage,
            on_stats=self.metrics.stepped,
        )
        self.backend.become(backend)
        await self.backend.start()

    def _apply(self, config: RuntimeConfig) -> None:
        self.pipeline.apply(config.hot)

    def _preparing(self, progress: Progress) -> None:
        fraction = progress.done / progress.total if progress.total else None
        self.backend.stage = describe(progress)
        self._on_progress(str(progress.stage), fraction)

    def _stage(self, stage: str, fraction: float | None) -> None:
        self.backend.stage = stage if fraction is None else f"{stage}, {fraction:.0%}"
        self._on_progress(stage, fraction)

    def _text_model(self) -> TextModel:
        if self._text is None:
            raise EngineNotReady(f"The model is not ready yet: {self.backend.stage}. Retry later.")
        return self._text

    def _make_app(self) -> FastAPI:
        return create_app(
            Services(
                pipeline=self.pipeline,
                backend=self.backend,
                text=self._text_model,
                config=lambda: self._live.config,
                lifecycle=self.lifecycle,
                auth=self._auth(),
                registry=self.metrics.registry,
                metrics=self.metrics,
                embedder=TextEmbedder(self.embedder),
                store_status=self.caching.status,
                cache=lambda: self.caching.cache.control if self.config.hot.cache.enabled else None,
                batch_size=lambda: self.metrics.mean_batch_size,
                config_problem=lambda: self._live.problem,
                tracing=self._around.tracing,
                path_prefix=self._around.path_prefix,
            )
        )

    def _auth(self) -> AuthPolicy:
        """Keys where they were given; without any, one anonymous tenant that is admin only here."""
        if self._around.local:
            return OpenPolicy()
        secrets = self._around.secrets
        folders = [folder for folder in (secrets.api_keys_dir, secrets.admin_keys_dir) if folder]
        return KeyPolicy(KeyFiles(folders).table, anonymous=secrets.api_keys_dir is None)
