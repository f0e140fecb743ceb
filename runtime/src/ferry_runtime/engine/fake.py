"""A backend without a model: a test double with controls for delays, failures, hangs and death.

It keeps the contract of `Backend` (slots, joining between steps, cancelling, stop strings, true
token counts), so it also stands in for the engine where the HTTP stack itself is load-tested.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ferry_runtime.engine.protocol import (
    Alternative,
    Delta,
    EngineState,
    EngineStats,
    FinishReason,
    GenerateRequest,
    ModelInfo,
    TokenLogprob,
)
from ferry_runtime.engine.state import StateCell
from ferry_runtime.engine.stream import Mailbox, Stream
from ferry_runtime.engine.worker.stops import StopFilter
from ferry_runtime.errors import EngineDied, EngineLoadError, EngineNotReady, RequestFailed

EOS = 2
_WORDS = (
    *(" the", " ferry", " leaves", " at", " noon", " with", " eight", " people", " and", " a", " dog"),
    *(" über", " die", " Elbe", ",", " 🚢", " never", " waits", ".", " Its", " wake", "\n"),
)

Answer = Callable[[GenerateRequest], Sequence[str]]


@dataclass(slots=True)
class _Row:
    request: GenerateRequest
    mailbox: Mailbox
    pieces: Sequence[str]
    stops: StopFilter
    made: int = 0


@dataclass(slots=True)
class FakeControls:
    """What the double does; change it at any time."""

    step_seconds: float = 0.0
    prefill_seconds_per_token: float = 0.0
    hanging: bool = False  # steps stop until it is False again
    # A request for which it is true fails alone, at its first token.
    fails: Callable[[GenerateRequest], bool] = field(default=lambda _: False)
    load_error: str | None = None  # start() raises EngineLoadError with it


class FakeBackend:
    """Implements `Backend`.

    ``answer`` gives a request's text, one piece per token; an end-of-sequence token follows,
    unless ignore_eos, when it begins again. Without ``answer`` the words depend on the prompt
    (and on the seed, when sampling; unseeded sampled requests differ). ``submitted``, ``cancelled``
    and ``finished`` list request ids in order.
    """

    def __init__(
        self,
        *,
        slots: int = 8,
        context_length: int = 8192,
        vocab_size: int = 49152,
        answer: Answer | None = None,
        on_stats: Callable[[EngineStats], None] | None = None,
    ) -> None:
        self.controls = FakeControls()
        self.submitted: list[str] = []
        self.cancelled: list[str] = []
        self.finished: list[str] = []
        self._answer = answer or self._words
        self._on_stats = on_stats
        self._state = StateCell(EngineState.LOADING)
        self._slots = slots
        self._info = _info(slots, context_length, vocab_size)
        self._running: dict[str, _Row] = {}
        self._waiting: deque[_Row] = deque()
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stats = EngineStats(kv_blocks_total=self._info.kv_blocks)
        self._unseeded = itertools.count()

    @property
    def state(self) -> EngineState:
        return self._state.value

    @property
    def info(self) -> ModelInfo:
        if self._state.value is EngineState.LOADING:
            raise EngineNotReady("The model is still being loaded. Retry in a moment.")
        return self._info

    @property
    def stats(self) -> EngineStats:
        return self._stats

    @property
    def failure(self) -> str:
        return self.controls.load_error or ""

    @property
    def heartbeat_age(self) -> float:
        return 0.0

    @property
    def restarts(self) -> int:
        return 0

    def on_state(self, listener: Callable[[EngineState], None]) -> None:
        self._state.listeners.append(listener)

    async def wait_state(self, *states: EngineState) -> EngineState:
        return await self._state.wait(*states)

    async def start(self) -> None:
        if self.controls.load_error is not None:
            self._state.set(EngineState.FAILED)
            raise EngineLoadError(self.controls.load_error)
        self._state.set(EngineState.READY)
        self._task = asyncio.create_task(self._loop())

    def generate(self, request: GenerateRequest) -> Stream:
        if self._state.value is not EngineState.READY:
            raise EngineNotReady("The engine is not ready. Retry in a moment.")
        sampling = request.sampling
        stops = StopFilter(sampling.stop, include_stop=sampling.include_stop_in_output)
        row = _Row(request, Mailbox(), self._answer(request), stops)
        self.submitted.append(request.request_id)
        self._waiting.append(row)
        self._work.set()
        return Stream(row.mailbox, partial(self._cancel, request.request_id))

    async def stop(self) -> None:
        self._state.set(EngineState.STOPPED)
        self._fail_all("The engine was stopped while this request was open.")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def die(self) -> None:
        """As if the engine process had been killed: open requests fail, RESTARTING."""
        self._state.set(EngineState.RESTARTING)
        self._fail_all("The engine process ended while this request was open.")

    def recover(self) -> None:
        """READY again after die()."""
        self._state.set(EngineState.READY)

    def _fail_all(self, message: str) -> None:
        rows = [*self._running.values(), *self._waiting]
        self._running.clear()
        self._waiting.clear()
        for row in rows:
            row.mailbox.fail(EngineDied(message))

    def _cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)
        self._running.pop(request_id, None)
        self._waiting = deque(row for row in self._waiting if row.request.request_id != request_id)

    async def _loop(self) -> None:
        while True:
            self._work.clear()
            if not (self._running or self._waiting):
                await self._work.wait()
            if self.controls.hanging:
                await asyncio.sleep(0.005)
                continue
            joined = self._join()
            prompt = sum(len(row.request.prompt_token_ids) for row in joined)
            await asyncio.sleep(self.controls.step_seconds + prompt * self.controls.prefill_seconds_per_token)
            rows = list(self._running.values())
            for row in rows:
                self._advance(row)
            self._count(len(rows), prompt)

    def _join(self) -> list[_Row]:
        joined = []
        while self._waiting and len(self._running) < self._slots:
            row = self._waiting.popleft()
            self._running[row.request.request_id] = row
            joined.append(row)
        return joined

    def _advance(self, row: _Row) -> None:
        request_id = row.request.request_id
        if self.controls.fails(row.request):
            del self._running[request_id]
            row.mailbox.fail(RequestFailed("This request failed in the engine."))
            return
        delta = _next_delta(row)
        if delta.finish_reason is not None:
            self.finished.append(request_id)
            del self._running[request_id]
        row.mailbox.put(delta)

    def _count(self, rows: int, prompt_tokens: int) -> None:
        before = self._stats
        self._stats = EngineStats(
            running=len(self._running),
            waiting=len(self._waiting),
            steps=before.steps + 1,
            decode_rows=rows,
            prefill_tokens=before.prefill_tokens + prompt_tokens,
            generated_tokens=before.generated_tokens + rows,
            kv_blocks_used=rows,
            kv_blocks_total=self._info.kv_blocks,
            step_seconds=self.controls.step_seconds,
        )
        if self._on_stats is not None:
            self._on_stats(self._stats)

    def _words(self, request: GenerateRequest) -> Sequence[str]:
        sampling, entropy = request.sampling, ""
        if sampling.temperature > 0:
            entropy = str(next(self._unseeded) if sampling.seed is None else f"seed {sampling.seed}")
        key = f"{request.prompt_token_ids} {entropy}"
        digest = hashlib.sha256(key.encode()).digest()
        return [_WORDS[byte % len(_WORDS)] for byte in digest[: 8 + digest[0] % 24]]


def _next_delta(row: _Row) -> Delta:
    """The row's next token, with everything that a real engine would say about it."""
    sampling, request_id = row.request.sampling, row.request.request_id
    row.made += 1
    first = row.made == 1
    prompt_logprobs = _prompt_logprobs(row.request) if first else None
    if sampling.max_tokens == 0:
        return Delta(
            request_id=request_id, prompt_logprobs=prompt_logprobs, finish_reason=FinishReason.LENGTH
        )
    if row.made > len(row.pieces) and not sampling.ignore_eos and row.made > sampling.min_tokens:
        return Delta(
            request_id=request_id,
            text=row.stops.flush(),
            token_ids=(EOS,),
            prompt_logprobs=prompt_logprobs,
            finish_reason=FinishReason.STOP,
        )
    piece = row.pieces[(row.made - 1) % len(row.pieces)] if row.pieces else " "
    token = _token_id(piece)
    text = row.stops.feed(piece)
    reason: FinishReason | None = None
    if row.stops.matched is not None:
        reason = FinishReason.STOP
    elif row.made >= sampling.max_tokens:
        reason = FinishReason.LENGTH
        text += row.stops.flush()
    return Delta(
        request_id=request_id,
        text=text,
        token_ids=(token,),
        logprobs=() if sampling.logprobs is None else (_logprob(token, piece, sampling.logprobs),),
        prompt_logprobs=prompt_logprobs,
        finish_reason=reason,
        stop_reason=row.stops.matched,
    )


def _token_id(piece: str) -> int:
    return 10 + int.from_bytes(hashlib.sha256(piece.encode()).digest()[:2], "big") % 1000


def _logprob(token: int, piece: str, alternatives: int) -> TokenLogprob:
    chosen = Alternative(token, piece, piece.encode(), -0.25)
    others = [
        Alternative(token + rank, text := f"?{rank}", text.encode(), -0.25 - rank)
        for rank in range(1, alternatives)
    ]
    return TokenLogprob(chosen, (chosen, *others) if alternatives else ())


def _prompt_logprobs(request: GenerateRequest) -> tuple[TokenLogprob, ...] | None:
    alternatives = request.sampling.prompt_logprobs
    if alternatives is None:
        return None
    first, *rest = request.prompt_token_ids
    start = TokenLogprob(Alternative(first, f"<{first}>", f"<{first}>".encode(), 0.0))
    return (start, *(_logprob(token, f"<{token}>", alternatives) for token in rest))


def _info(slots: int, context_length: int, vocab_size: int) -> ModelInfo:
    return ModelInfo(
        family="fake",
        device="cpu",
        dtype="float32",
        numerics="Fast",
        vocab_size=vocab_size,
        context_length=context_length,
        eos_token_ids=(EOS,),
        slots=slots,
        kv_block_tokens=64,
        kv_blocks=slots * -(-context_length // 64),
        parameters=0,
        weights_bytes=0,
        kv_bytes=0,
        load_seconds=0.0,
    )
