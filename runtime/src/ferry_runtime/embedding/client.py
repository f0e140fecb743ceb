"""Embeddings for the HTTP process: texts go to a supervised child, vectors come back."""

from __future__ import annotations

import array
import asyncio
import itertools
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from ferry_runtime.embedding.location import embedder_directory
from ferry_runtime.embedding.messages import (
    DIRECTORY_VARIABLE,
    Embed,
    Embedded,
    Embedding,
    EmbedFailed,
    FromChild,
    Loaded,
    LoadFailed,
)
from ferry_runtime.errors import EmbedderUnavailable, Overloaded, RequestFailed
from ferry_runtime.process import ChildCommand, ChildGone, Exit, Supervisor

logger = logging.getLogger(__name__)

# A long list is sent piece by piece, so that a cache lookup never waits behind all of it.
SLICE_TEXTS = 16
_MOST_WAITING_CHARACTERS = 8_000_000
_RETRY_AFTER_SECONDS = 2.0


class EmbeddingClient:
    """Started by its first use: a service without semantic cache and embeddings pays nothing.

    One thread by default, because the engine needs the cores more.
    """

    def __init__(self, directory: Path | None = None, *, threads: int = 1) -> None:
        self._directory = directory
        self._threads = threads
        self._supervisor: Supervisor | None = None
        self._loaded: asyncio.Future[Loaded] | None = None
        self._waiting: dict[int, asyncio.Future[tuple[Embedding, ...]]] = {}
        self._waiting_characters = 0
        self._ids = itertools.count()
        self._stopped = False

    @property
    def info(self) -> Loaded | None:
        """What the child loaded; None before its first use has finished loading."""
        loaded = self._loaded
        return loaded.result() if loaded and loaded.done() and not loaded.exception() else None

    @property
    def pid(self) -> int | None:
        return self._supervisor.pid if self._supervisor else None

    async def load(self) -> Loaded:
        """Start the child unless it runs. Raises EmbedderUnavailable when there is no model."""
        if self._stopped:
            raise EmbedderUnavailable("The server is stopping.")
        if self._loaded is None:
            directory = self._directory or embedder_directory()
            self._loaded = asyncio.get_running_loop().create_future()
            self._supervisor = Supervisor(self._command(directory), self, FromChild)
            self._supervisor.start()
        return await asyncio.shield(self._loaded)

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """One unit vector and token count per text, in order; no vector for a text that is too long.

        Raises Overloaded when too much waits, EmbedderUnavailable, RequestFailed.
        """
        characters = sum(map(len, texts))
        if self._waiting_characters + characters > _MOST_WAITING_CHARACTERS:
            raise Overloaded("Too many texts wait to be embedded. Try again later.", _RETRY_AFTER_SECONDS)
        self._waiting_characters += characters
        try:
            await self.load()
            result: list[Embedding] = []
            for start in range(0, len(texts), SLICE_TEXTS):
                result += await self._embed_slice(tuple(texts[start : start + SLICE_TEXTS]))
            return result
        finally:
            self._waiting_characters -= characters

    async def stop(self) -> None:
        self._stopped = True
        if self._supervisor is not None:
            if self.info is None:
                # Nothing is lost with it, and while it loads it would not hear a goodbye.
                self._supervisor.give_up()
                self._supervisor.kill()
            await self._supervisor.stop()
        self._fail_all(EmbedderUnavailable("The server is stopping."))

    async def _embed_slice(self, texts: tuple[str, ...]) -> tuple[Embedding, ...]:
        if self._supervisor is None:
            raise EmbedderUnavailable("The embedder is not running.")
        request = Embed(next(self._ids), texts)
        future: asyncio.Future[tuple[Embedding, ...]] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = future
        try:
            self._supervisor.send(request)
            return await future
        except ChildGone:
            raise EmbedderUnavailable("The embedder is being restarted. Try again shortly.") from None
        finally:
            self._waiting.pop(request.id, None)

    def _command(self, directory: Path) -> ChildCommand:
        threads = str(self._threads)
        return ChildCommand(
            name="embedder",
            module="ferry_runtime.embedding.worker",
            env={
                DIRECTORY_VARIABLE: str(directory),
                "HF_HUB_OFFLINE": "1",
                "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                "TRANSFORMERS_VERBOSITY": "error",
                "TOKENIZERS_PARALLELISM": "false",
                "OMP_NUM_THREADS": threads,
                "MKL_NUM_THREADS": threads,
            },
        )

    def started(self) -> None:
        """A life began: it loads by itself and says so."""

    def received(self, message: FromChild) -> None:
        match message:
            case Loaded():
                if self._supervisor is not None:
                    self._supervisor.healthy()
                if self._loaded is not None and not self._loaded.done():
                    self._loaded.set_result(message)
            case LoadFailed(reason):
                if self._supervisor is not None:
                    self._supervisor.give_up()
                self._fail_all(EmbedderUnavailable(reason))
            case Embedded(identity, embeddings):
                if (future := self._waiting.get(identity)) and not future.done():
                    future.set_result(embeddings)
            case EmbedFailed(identity):
                if (future := self._waiting.get(identity)) and not future.done():
                    future.set_exception(RequestFailed("These texts could not be embedded."))

    def exited(self, end: Exit, restart_in: float | None) -> None:  # noqa: ARG002 (the Handler's signature)
        if restart_in is not None and self._loaded is not None and self._loaded.done():
            # The next life announces itself; until then callers wait in load().
            self._loaded = asyncio.get_running_loop().create_future()
        reason = "The embedder ended" if restart_in is not None else "The embedder cannot be started"
        self._fail_waiting(EmbedderUnavailable(f"{reason}. Try again later."))
        if restart_in is None:
            self._fail_all(EmbedderUnavailable(f"{reason}; the reason is in the server's log."))

    def _fail_all(self, error: EmbedderUnavailable) -> None:
        if self._loaded is not None and not self._loaded.done():
            self._loaded.set_exception(error)
            self._loaded.exception()  # nobody may be waiting
        self._fail_waiting(error)

    def _fail_waiting(self, error: EmbedderUnavailable) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
                future.exception()


def to_floats(vector: bytes) -> list[float]:
    """A vector's bytes as numbers, for JSON."""
    floats = array.array("f", vector)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tolist()
