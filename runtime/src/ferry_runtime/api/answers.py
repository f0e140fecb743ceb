"""The open answers of one HTTP request, one per prompt, as one stream of deltas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from ferry_runtime.api.schemas.answers import PromptTokensDetails, Usage
from ferry_runtime.engine.protocol import Delta, FinishReason, TokenLogprob
from ferry_runtime.generation import Answer, CacheInfo, CacheOutcome, ChoiceDelta, GenerationRequest, Pipeline


class Choice:
    """What has been generated of one choice."""

    __slots__ = (
        "_texts",
        "cached_tokens",
        "finish_reason",
        "logprobs",
        "prompt_logprobs",
        "stop_reason",
        "tokens",
    )

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.tokens = 0
        self.cached_tokens = 0
        self.logprobs: list[TokenLogprob] = []
        self.prompt_logprobs: Sequence[TokenLogprob] | None = None
        self.finish_reason: FinishReason | None = None
        self.stop_reason: str | int | None = None

    def add(self, delta: Delta) -> None:
        self.count(delta)
        self._texts.append(delta.text)
        self.logprobs.extend(delta.logprobs)
        if delta.prompt_logprobs is not None:
            self.prompt_logprobs = delta.prompt_logprobs

    def count(self, delta: Delta) -> None:
        """All that a stream needs to remember, whose text has already been sent."""
        self.tokens += len(delta.token_ids)
        self.cached_tokens = max(self.cached_tokens, delta.cached_prompt_tokens)
        if delta.finish_reason is not None:
            self.finish_reason = delta.finish_reason
            self.stop_reason = delta.stop_reason

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def mean_logprob(self) -> float:
        """Per token, as OpenAI ranks ``best_of``."""
        if not self.logprobs:
            return 0.0
        return sum(entry.token.logprob for entry in self.logprobs) / len(self.logprobs)


class Generation:
    """Iterate it to the end or to ``aclose``, which cancels what still runs. A second loop goes on
    where the first one stopped.

    Choices are numbered prompt by prompt: the choice c of the prompt p is p · n + c.
    """

    def __init__(self, requests: Sequence[GenerationRequest], answers: Sequence[Answer]) -> None:
        self.requests = requests
        self._answers = answers
        self._deltas = self._iterate()
        self.choices = [Choice() for request in requests for _ in range(request.n)]

    @classmethod
    async def submit(cls, pipeline: Pipeline, requests: Sequence[GenerationRequest]) -> Generation:
        """All prompts or none: one refusal cancels those before it. Raises what the pipeline does."""
        answers: list[Answer] = []
        try:
            for request in requests:
                answers.append(await pipeline.submit(request))  # noqa: PERF401 (kept on failure)
        except BaseException:
            await _close(answers)
            raise
        return cls(requests, answers)

    def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        return self._deltas

    async def _iterate(self) -> AsyncGenerator[ChoiceDelta, None]:
        if len(self._answers) == 1:
            async for item in self._answers[0]:
                yield item
            return
        first = 0
        numbered = []
        for request, answer in zip(self.requests, self._answers, strict=True):
            numbered.append((first, answer))
            first += request.n
        async with aclosing(_merge(numbered)) as merged:
            async for item in merged:
                yield item

    async def aclose(self) -> None:
        await self._deltas.aclose()
        await _close(self._answers)

    @property
    def cache(self) -> CacheInfo:
        """Of the one answer; of several prompts only an outcome that all share."""
        infos = [answer.cache for answer in self._answers]
        if len(infos) == 1:
            return infos[0]
        outcomes = {info.outcome for info in infos}
        return CacheInfo(outcome=outcomes.pop() if len(outcomes) == 1 else CacheOutcome.MISS)

    @property
    def output_tokens(self) -> int:
        return sum(choice.tokens for choice in self.choices)

    @property
    def usage(self) -> Usage:
        """A prompt counts once, however many choices it has."""
        prompt = sum(len(request.prompt_token_ids) for request in self.requests)
        cached, first = 0, 0
        for request in self.requests:
            mine = self.choices[first : first + request.n]
            cached += min(len(request.prompt_token_ids), max(choice.cached_tokens for choice in mine))
            first += request.n
        completion = self.output_tokens
        return Usage(prompt, completion, prompt + completion, PromptTokensDetails(cached))


async def _close(answers: Sequence[Answer]) -> None:
    await asyncio.gather(*(answer.aclose() for answer in answers), return_exceptions=True)


async def _merge(numbered: Sequence[tuple[int, Answer]]) -> AsyncGenerator[ChoiceDelta, None]:
    """Deltas of several answers as they come. The first failure is raised; the others then stop."""
    queue: asyncio.Queue[ChoiceDelta | Exception | None] = asyncio.Queue(maxsize=len(numbered))

    async def forward(first: int, answer: Answer) -> None:
        try:
            async for item in answer:
                await queue.put(ChoiceDelta(first + item.index, item.delta))
            await queue.put(None)
        except Exception as error:  # noqa: BLE001 (handed to the reader, who raises it)
            await queue.put(error)

    tasks = [asyncio.create_task(forward(first, answer)) for first, answer in numbered]
    try:
        open_answers = len(tasks)
        while open_answers:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                open_answers -= 1
            else:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
