"""A request's own view of a flight: its id, its deadline, its place in the log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import msgspec

from ferry_runtime.cache.flight import Flight, Listener, Phase
from ferry_runtime.errors import (
    DeadlineExceeded,
    EngineDied,
    EngineNotReady,
    Overloaded,
    RequestFailed,
)
from ferry_runtime.generation import CacheInfo, CacheOutcome, ChoiceDelta, GenerationRequest

# What another attempt may mend. A refused or invalid request would be refused again.
RETRYABLE = (DeadlineExceeded, EngineDied, RequestFailed)
# What concerned the leader's admission alone: each follower asks for its own.
REFUSALS = (Overloaded, EngineNotReady)


@dataclass(slots=True)
class _Sent:
    """What one choice has already given to the client, and how much of it is still to be skipped
    in the log of a later attempt."""

    text: str = ""
    tokens: int = 0
    skip_text: str = ""
    skip_tokens: int = 0


class FlightAnswer:
    """Implements `Answer` for leader and followers alike."""

    def __init__(
        self,
        flight: Flight,
        request: GenerationRequest,
        *,
        queue_timeout: float,
        on_promoted: Callable[[], None] | None = None,
    ) -> None:
        self._flight = flight
        self._request = request
        self._on_promoted = on_promoted
        self._listener: Listener = flight.join(request)
        self._led = flight.leader is self._listener
        self._queue_timeout = queue_timeout
        self._all_by = request.arrival + request.timeout if request.timeout is not None else None
        self._attempt = flight.attempt
        self._next = 0
        self._sent = [_Sent() for _ in range(request.n)]

    @property
    def cache(self) -> CacheInfo:
        info = self._flight.info
        followed = not self._led and info.outcome is CacheOutcome.MISS
        return replace(info, outcome=CacheOutcome.COALESCED) if followed else info

    async def opened(self) -> None:
        """Until the answer is admitted or found. Raises the refusal otherwise."""
        while self._flight.phase is Phase.OPENING or self._flight.phase is Phase.FAILED:
            if self._listener.error is not None:
                raise self._listener.error
            if self._flight.phase is Phase.FAILED:
                self._take_over()
            await self._wait()

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        try:
            while not await self._settled():
                while self._next < len(self._flight.log) and self._attempt == self._flight.attempt:
                    self._next += 1
                    mine = self._unsent(self._flight.log[self._next - 1])
                    if mine is not None:
                        yield mine
        finally:
            await self.aclose()

    async def _settled(self) -> bool:
        """Until there is something to read (False) or no more will come (True)."""
        flight = self._flight
        while True:
            if self._listener.error is not None:
                raise self._listener.error
            if self._attempt != flight.attempt:
                self._restart()
            if self._next < len(flight.log):
                return False
            if flight.phase is Phase.FINISHED:
                return True
            if flight.phase is Phase.FAILED:
                self._take_over()
            else:
                await self._wait()

    async def aclose(self) -> None:
        await self._flight.leave(self._listener)

    def _take_over(self) -> None:
        """Lead the next attempt, or raise why there is none."""
        error = self._flight.error
        if error is None:
            raise EngineDied("the generation ended early")
        if not isinstance(error, RETRYABLE + REFUSALS) or not self._flight.retry(
            self._flight.attempt, self._listener
        ):
            raise error
        self._led = True
        if self._on_promoted is not None:
            self._on_promoted()

    def _restart(self) -> None:
        """Read the new attempt's log from its start, past what the client already has."""
        self._attempt = self._flight.attempt
        self._next = 0
        for sent in self._sent:
            sent.skip_text, sent.skip_tokens = sent.text, sent.tokens

    def _unsent(self, item: ChoiceDelta) -> ChoiceDelta | None:
        """The part of a delta that the client lacks, under the client's own request id."""
        delta, sent = item.delta, self._sent[item.index]
        text, tokens = delta.text, len(delta.token_ids)
        cut = min(len(text), len(sent.skip_text))
        if text[:cut] != sent.skip_text[:cut]:
            raise RequestFailed("the answer broke off and could not be continued; ask again")
        drop = min(tokens, sent.skip_tokens)
        sent.skip_text, sent.skip_tokens = sent.skip_text[cut:], sent.skip_tokens - drop
        sent.text += text[cut:]
        sent.tokens += tokens - drop
        skipped = cut > 0 or drop > 0
        if skipped and cut == len(text) and drop == tokens and delta.finish_reason is None:
            return None
        trimmed = msgspec.structs.replace(
            delta,
            request_id=self._request.id,
            text=text[cut:],
            token_ids=delta.token_ids[drop:],
            logprobs=delta.logprobs[drop:],
            prompt_logprobs=None if skipped else delta.prompt_logprobs,
        )
        return ChoiceDelta(item.index, trimmed)

    def _first_by(self) -> float:
        since = max(self._request.arrival, self._flight.since or self._request.arrival)
        first_by = since + self._queue_timeout
        return first_by if self._all_by is None else min(first_by, self._all_by)

    async def _wait(self) -> None:
        """For news, within this request's own deadline, whoever leads."""
        started = bool(self._flight.log) or self._led  # a leader's time in the queue is the scheduler's
        until = self._all_by if started else self._first_by()
        try:
            async with asyncio.timeout(None if until is None else until - time.monotonic()):
                await self._flight.wait()
        except TimeoutError:
            raise DeadlineExceeded("The request's time ran out while it waited for its answer.") from None
