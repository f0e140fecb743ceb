"""One request's way: cache, admission, schedule, engine; and its outcome, counted once.

Nothing here waits for a slot: `submit` returns an answer that is filled while it is read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from ferry_api.runtime_config import BatchingConfig, BatchingMode, HotConfig
from ferry_runtime.cache.contract import AnswerCache
from ferry_runtime.engine.protocol import Backend, EngineState, FinishReason, ModelInfo
from ferry_runtime.errors import DeadlineExceeded, FerryError, ShuttingDown, StoreError
from ferry_runtime.generation import Answer, CacheInfo, CacheOutcome, ChoiceDelta, GenerationRequest
from ferry_runtime.metrics import Metrics, Outcome
from ferry_runtime.scheduling.admission import QueueLimits, RejectReason
from ferry_runtime.scheduling.core import SchedulerCore
from ferry_runtime.scheduling.queue import Handicap, by_score
from ferry_runtime.scheduling.room import EngineRoom
from ferry_runtime.scheduling.scheduler import Pausable, Scheduler
from ferry_runtime.scheduling.shape import BatchShape, KvMemory
from ferry_runtime.scheduling.shaping import AdaptiveShaping, FixedShaping, Shaping

if TYPE_CHECKING:
    from ferry_runtime.tracing.spans import Tracing

_log = logging.getLogger(__name__)


class ServingPipeline:
    """Implements `generation.Pipeline`, and what the service's lifecycle needs of it."""

    def __init__(
        self,
        *,
        backend: Backend,
        batching: BatchingConfig,
        hot: HotConfig,
        metrics: Metrics,
        cache: AnswerCache | None = None,
        policy: Handicap = by_score,
        clock: Callable[[], float] = time.monotonic,
        tracing: Tracing | None = None,
    ) -> None:
        """``cache`` None: every request is generated. ``policy`` orders the queue."""
        self._backend = backend
        self._batching = batching
        self._metrics = metrics
        self._cache = cache
        self._clock = clock
        self._tracing = tracing
        self._core = SchedulerCore(_limits(hot), _shaping(batching, batching.max_batch_size), policy=policy)
        self._scheduler = Scheduler(backend, self._core, metrics, clock)
        self._fitted: ModelInfo | None = None
        self._refusal: FerryError | None = None
        self._ended: FerryError | None = None
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()
        metrics.watch(self._core, backend)

    def apply(self, hot: HotConfig) -> None:
        """Take over changed queue limits while serving."""
        self._core.limits = _limits(hot)

    async def submit(self, request: GenerationRequest) -> Answer:
        """See `generation.Pipeline.submit`."""
        if self._refusal is not None:
            self._metrics.refused(RejectReason.DRAINING)
            self._count(request, CacheOutcome.BYPASS, Outcome.REJECTED, None)
            raise self._refusal
        self._open += 1
        self._idle.clear()
        try:
            answer = await self._answer(request)
        except BaseException as error:
            self._close(request, CacheOutcome.BYPASS, _outcome(error, admitted=False), None)
            raise
        return _CountedAnswer(
            answer,
            request.n,
            lambda outcome, reason, tokens: self._close(
                request, answer.cache.outcome, outcome, reason, tokens
            ),
        )

    def refuse(self, error: FerryError) -> None:
        """From now on every new request gets this error; what was accepted goes on."""
        self._refusal = error

    def fail_all(self, error: FerryError) -> None:
        """End every open request with an error that its reader will see, also those that wait for
        the cache or for another request's answer."""
        self._ended = error
        self._scheduler.fail_all(error)

    @property
    def idle(self) -> bool:
        """No client's request is open, and one could be served."""
        return self._open == 0 and self._refusal is None and self._backend.state is EngineState.READY

    async def wait_idle(self) -> None:
        """Until everything that was accepted has ended."""
        await self._idle.wait()
        await self._scheduler.wait_idle()

    async def stop(self) -> None:
        """End what is open. The backend is stopped by whoever started it."""
        self.refuse(ShuttingDown("The server has stopped."))
        await self._scheduler.stop()

    async def _answer(self, request: GenerationRequest) -> Answer:
        if self._cache is None:
            return self._generate(request)
        if self._tracing is None:
            return await self._look_up(request, self._cache)
        with self._tracing.cache() as lookup:
            answer = await self._look_up(request, self._cache)
            lookup.found(answer.cache)
            return answer

    async def _look_up(self, request: GenerationRequest, cache: AnswerCache) -> Answer:
        generated: list[Answer] = []

        async def generate(wanted: GenerationRequest) -> Answer:
            generated.append(self._generate(wanted))
            return generated[-1]

        try:
            return await cache.answer(request, generate)
        except StoreError:
            _log.warning("the cache failed; generating", extra={"request_id": request.id})
        except FerryError:
            raise
        except Exception as error:  # noqa: BLE001 - a broken cache must not refuse what the engine can answer
            # Its kind only: an outside library's message may hold the prompt.
            _log.error(
                "the cache failed with %s; generating", type(error).__name__, extra={"request_id": request.id}
            )
        return generated[-1] if generated else self._generate(request)

    def _generate(self, request: GenerationRequest) -> Answer:
        if self._ended is not None:
            raise self._ended
        if self._backend.state is EngineState.READY and self._backend.info is not self._fitted:
            self._fit_engine(self._backend.info)
        answer = self._scheduler.submit(request)
        return answer if self._tracing is None else self._tracing.generation(answer, request)

    def _close(
        self,
        request: GenerationRequest,
        cache: CacheOutcome,
        outcome: Outcome,
        reason: FinishReason | None,
        tokens: int = 0,
    ) -> None:
        self._open -= 1
        if self._open == 0:
            self._idle.set()
        self._count(request, cache, outcome, reason, tokens)

    def _count(
        self,
        request: GenerationRequest,
        cache: CacheOutcome,
        outcome: Outcome,
        reason: FinishReason | None,
        tokens: int = 0,
    ) -> None:
        seconds = self._clock() - request.arrival
        self._metrics.request_ended(request.route, outcome, seconds, cache, reason, tokens=tokens)

    def _fit_engine(self, info: ModelInfo) -> None:
        """What the engine really has is known once it is loaded, and may be less after a restart."""
        if self._core.submitted:
            return  # not while sequences of the former life are still being ended
        managed = info.kv_blocks > 0 and info.kv_block_tokens > 0
        kv = KvMemory(info.kv_blocks, info.kv_block_tokens) if managed else None
        room = EngineRoom(kv, can_pause=isinstance(self._backend, Pausable))
        self._core.fit(_shaping(self._batching, info.slots), room)
        self._fitted = info


class _CountedAnswer:
    """The answer as the API reads it. Its end, whatever it is, is counted once."""

    def __init__(
        self, answer: Answer, choices: int, ended: Callable[[Outcome, FinishReason | None, int], None]
    ) -> None:
        """``ended`` gets the outcome, the first choice's finish reason and the tokens of all choices."""
        self._answer = answer
        self._items = aiter(answer)
        self._open = choices
        self._ended = ended
        self._counted = False
        self._tokens = 0
        self._finish_reason: FinishReason | None = None

    @property
    def cache(self) -> CacheInfo:
        return self._answer.cache

    def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        return self

    async def __anext__(self) -> ChoiceDelta:
        try:
            item = await anext(self._items)
        except StopAsyncIteration:
            raise
        except Exception as error:
            self._count(_outcome(error, admitted=True))
            raise
        self._tokens += len(item.delta.token_ids)
        if item.delta.finish_reason is not None:
            self._open -= 1
            if item.index == 0:
                self._finish_reason = item.delta.finish_reason
            # Now, not at the iterator's end: a reader that has seen every finish_reason may close.
            if self._open == 0:
                self._count(Outcome.SUCCESS)
        return item

    async def aclose(self) -> None:
        self._count(Outcome.CANCELLED)
        await self._answer.aclose()

    def _count(self, outcome: Outcome) -> None:
        if not self._counted:
            self._counted = True
            self._ended(outcome, self._finish_reason, self._tokens)


def _outcome(error: BaseException, *, admitted: bool) -> Outcome:
    match error:
        case DeadlineExceeded():
            return Outcome.TIMEOUT
        case FerryError() if not admitted:
            return Outcome.REJECTED
        case Exception():
            return Outcome.ERROR
        case _:  # the reader was cancelled
            return Outcome.CANCELLED


def _limits(hot: HotConfig) -> QueueLimits:
    queue = hot.queue
    return QueueLimits(
        max_requests=queue.max_requests, max_tokens=queue.max_tokens, timeout=queue.timeout_seconds
    )


def _shaping(batching: BatchingConfig, slots: int) -> Shaping:
    declared = BatchShape(
        slots=slots, batch=min(batching.max_batch_size, slots), max_wait=batching.max_wait_seconds
    )
    if batching.mode is BatchingMode.ADAPTIVE:
        return AdaptiveShaping(declared, batching.target_time_to_first_token_seconds)
    return FixedShaping(declared)
