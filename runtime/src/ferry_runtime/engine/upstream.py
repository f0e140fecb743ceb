"""The backend that asks another OpenAI-compatible server to generate.

Ferry keeps what it is good at (queue, cache, keys, metrics) and sends each sequence to the
upstream's completions route: as token ids where the upstream takes them, as text otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from ferry_runtime.engine.protocol import (
    Delta,
    EngineState,
    EngineStats,
    FinishReason,
    GenerateRequest,
    ModelInfo,
    SamplingParams,
)
from ferry_runtime.engine.state import StateCell
from ferry_runtime.engine.stream import Mailbox, Stream
from ferry_runtime.engine.upstream_wire import ChunkReader, completion_body
from ferry_runtime.errors import EngineDied, EngineError, EngineLoadError, EngineNotReady, RequestFailed

logger = logging.getLogger(__name__)

_CONNECT_SECONDS = 5.0
_SILENCE_SECONDS = 300.0  # between two chunks: an upstream may queue what it was sent
_WATCH_SECONDS = 5.0
_TOLERATED_FAILURES = 2
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamModel:
    """``url`` is the API's base, usually ending in /v1; ``name`` what the upstream calls the model.

    ``decode`` gives a prompt's text as the upstream should read it (without the begin token that it
    adds itself); ``token_id`` finds a token by its text; ``sample`` is a short prompt to try.
    """

    url: str
    name: str
    family: str
    vocab_size: int
    context_length: int
    eos_token_ids: tuple[int, ...]
    slots: int
    sample: tuple[int, ...]
    decode: Callable[[Sequence[int]], str]
    token_id: Callable[[str], int | None]


class UpstreamBackend:
    """Implements `Backend`. Ready while the upstream answers; it is watched, and asked again when
    it comes back."""

    def __init__(
        self, model: UpstreamModel, *, key: str | None = None, watch_seconds: float = _WATCH_SECONDS
    ) -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        timeout = httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=model.slots)
        self._model = model
        self._http = httpx.AsyncClient(
            base_url=model.url.rstrip("/") + "/", headers=headers, timeout=timeout, limits=limits
        )
        self._watch_seconds = watch_seconds
        self._state = StateCell(EngineState.LOADING)
        self._info: ModelInfo | None = None
        self._as_ids = True
        self._running: dict[str, asyncio.Task[None]] = {}
        self._generated = 0
        self._watcher: asyncio.Task[None] | None = None
        self.failure = ""

    @property
    def state(self) -> EngineState:
        return self._state.value

    @property
    def info(self) -> ModelInfo:
        if self._info is None:
            raise EngineNotReady("The upstream has not answered yet. Retry in a moment.")
        return self._info

    @property
    def stats(self) -> EngineStats:
        running = len(self._running)
        return EngineStats(
            running=running, decode_rows=running, steps=self._generated, generated_tokens=self._generated
        )

    async def start(self) -> None:
        """Wait for the upstream, then let it generate a token.

        Raises EngineLoadError when it answers and refuses: a wrong key or model name.
        """
        began = time.monotonic()
        while not await self._try_to_load(began):  # noqa: ASYNC110 (another machine sends no events)
            await asyncio.sleep(self._watch_seconds)
        self._state.set(EngineState.READY)
        self._watcher = asyncio.create_task(self._watch(), name="upstream-watch")

    def generate(self, request: GenerateRequest) -> Stream:
        if self._state.value is not EngineState.READY:
            raise EngineNotReady(self.failure or "The upstream does not answer. Retry in a moment.")
        mailbox = Mailbox()
        if request.sampling.max_tokens == 0 and request.sampling.prompt_logprobs is None:
            # Many servers refuse to generate nothing; there is nothing to ask them.
            mailbox.put(Delta(request_id=request.request_id, finish_reason=FinishReason.LENGTH))
            return Stream(mailbox, lambda: None)
        task = asyncio.create_task(self._pump(request, mailbox), name=f"upstream-{request.request_id}")
        self._running[request.request_id] = task
        task.add_done_callback(lambda _: self._running.pop(request.request_id, None))

        def cancel() -> None:
            task.cancel()

        return Stream(mailbox, cancel)

    async def stop(self) -> None:
        self._state.set(EngineState.STOPPED)
        tasks = [*self._running.values(), *([self._watcher] if self._watcher else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.aclose()

    async def _try_to_load(self, began: float) -> bool:
        """False when the upstream cannot be reached for now."""
        try:
            context = await self._find_model()
            await self._warm_up()
        except EngineNotReady as error:
            self._failed(error)
            return False
        model = self._model
        self._info = ModelInfo(
            family=model.family,
            device="upstream",
            dtype="upstream",
            numerics="upstream",
            vocab_size=model.vocab_size,
            context_length=min(model.context_length, context or model.context_length),
            eos_token_ids=model.eos_token_ids,
            slots=model.slots,
            kv_block_tokens=0,
            kv_blocks=0,
            parameters=0,
            weights_bytes=0,
            kv_bytes=0,
            load_seconds=time.monotonic() - began,
        )
        self.failure = ""
        return True

    async def _find_model(self) -> int | None:
        """The upstream's context length, where it tells (vLLM's max_model_len).

        Raises EngineLoadError when it does not serve the model.
        """
        listed = await self._models()
        if listed is None:
            return None
        for entry in listed:
            if entry.get("id") == self._model.name:
                length = entry.get("max_model_len")
                return int(length) if length else None
        names = ", ".join(str(entry.get("id")) for entry in listed[:5]) or "none"
        raise EngineLoadError(
            f"The upstream {self._model.url} does not serve the model {self._model.name!r}; it has {names}. "
            "Write its name in engine.upstream.model."
        )

    async def _models(self) -> list[dict[str, Any]] | None:
        """None when the upstream has no such route. Raises EngineNotReady, EngineLoadError."""
        try:
            answer = await self._http.get("models", timeout=_CONNECT_SECONDS)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if answer.status_code in (404, 405):
            return None
        if answer.status_code in (401, 403):
            raise EngineLoadError(
                f"The upstream {self._model.url} refuses the key that it was given: "
                "check engine.upstream.secretRef."
            )
        if answer.status_code != 200:
            raise EngineNotReady(f"The upstream {self._model.url} answers with status {answer.status_code}.")
        try:
            data = answer.json()["data"]
            return [entry for entry in data if isinstance(entry, dict)]
        except (ValueError, KeyError, TypeError) as error:
            raise EngineLoadError(
                f"{self._model.url} is not an OpenAI-compatible API: its models route answers something else."
            ) from error

    async def _warm_up(self) -> None:
        """Generate a token, from ids if the upstream takes them. Raises as `_models` does."""
        sampling = SamplingParams(max_tokens=1, temperature=0.0)
        request = GenerateRequest(
            request_id="warm-up", prompt_token_ids=self._model.sample, sampling=sampling
        )
        for self._as_ids in (True, False):
            mailbox = Mailbox()
            try:
                await self._converse(request, mailbox)
                return
            except RequestFailed as error:
                refusal = error
            except EngineDied as error:
                raise EngineNotReady(str(error)) from error
        raise EngineLoadError(
            f"The upstream {self._model.url} lists the model but does not complete prompts: {refusal}"
        )

    async def _pump(self, request: GenerateRequest, mailbox: Mailbox) -> None:
        try:
            await self._converse(request, mailbox)
            mailbox.fail(EngineDied("The upstream ended the answer before it was complete."))
        except EngineError as error:
            mailbox.fail(error)
        except Exception:
            logger.exception("the upstream's answer could not be read")
            mailbox.fail(RequestFailed("The upstream's answer could not be read."))
        except asyncio.CancelledError:
            mailbox.fail(EngineDied("The server is stopping."))
            raise

    async def _converse(self, request: GenerateRequest, mailbox: Mailbox) -> None:
        """One completion from request to last chunk. Raises an EngineError."""
        ids = request.prompt_token_ids
        body = completion_body(request, self._model.name, ids if self._as_ids else self._model.decode(ids))
        reader = ChunkReader(request, self._model.token_id)
        try:
            async with self._http.stream("POST", "completions", json=body, headers=request.headers) as answer:
                if answer.status_code != 200:
                    raise await self._refused(answer)
                async for chunk in _events(answer):
                    self._hand_over(reader, chunk, mailbox)
                if (last := reader.end()) is not None:
                    mailbox.put(last)
        except httpx.HTTPError as error:
            unreachable = self._unreachable(error)
            raise (EngineDied(str(unreachable)) if reader.begun else unreachable) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            logger.exception("the upstream sent what is no completion chunk")
            raise RequestFailed("The upstream's answer could not be read.") from error

    def _hand_over(self, reader: ChunkReader, chunk: dict[str, Any], mailbox: Mailbox) -> None:
        if chunk.get("error"):  # some servers send a null with every chunk
            logger.error("the upstream failed in the middle of an answer")
            raise RequestFailed("The upstream failed in the middle of the answer.")
        delta = reader.read(chunk)
        if delta is not None:
            self._generated += len(delta.token_ids)
            mailbox.put(delta)

    async def _refused(self, answer: httpx.Response) -> EngineError:
        status = answer.status_code
        with contextlib.suppress(httpx.HTTPError):
            await answer.aread()
        logger.info("the upstream refused a request", extra={"upstream_status": status})
        if status in (429, 502, 503, 504):
            return EngineNotReady("The upstream takes no more requests at present. Retry in a moment.")
        return RequestFailed(f"The upstream refused this request (status {status}).")

    def _failed(self, error: EngineError) -> None:
        """Said once, however often it is found."""
        if str(error) != self.failure:
            logger.warning("%s", error)
        self.failure = str(error)

    def _unreachable(self, error: httpx.HTTPError) -> EngineNotReady:
        return EngineNotReady(f"The upstream {self._model.url} cannot be reached ({type(error).__name__}).")

    async def _watch(self) -> None:
        failures = 0
        while True:
            await asyncio.sleep(self._watch_seconds)
            try:
                await self._models()
            except (EngineNotReady, EngineLoadError) as error:
                failures += 1
                if failures >= _TOLERATED_FAILURES:
                    self._failed(error)
                    self._state.set(EngineState.RESTARTING)
                continue
            failures, self.failure = 0, ""
            self._state.set(EngineState.READY)


async def _events(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The data lines of a server-sent stream, until [DONE]. Raises ValueError on other content."""
    async for line in answer.aiter_lines():
        if len(line) > _LONGEST_LINE:
            raise ValueError("a line of the stream is too long")
        name, _, value = line.partition(":")
        if name != "data":
            continue
        value = value.strip()
        if value == "[DONE]":
            return
        chunk = json.loads(value)
        if not isinstance(chunk, dict):
            raise TypeError("a chunk is not an object")
        yield chunk
