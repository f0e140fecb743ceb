"""What a client asked for, after validation, and what it gets: the types between api and pipeline.

The API layer turns every route's body into a `GenerationRequest` (tokenized, defaults resolved);
the pipeline answers with an `Answer`. Neither knows the other's inside.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from ferry_runtime.engine.protocol import Delta, SamplingParams


class CacheOutcome(StrEnum):
    """Where an answer came from; the value of the X-Ferry-Cache header."""

    EXACT = "exact"
    SEMANTIC = "semantic"
    COALESCED = "coalesced"
    MISS = "miss"
    BYPASS = "bypass"


# Answers that cost no generation of their own.
HITS = frozenset({CacheOutcome.EXACT, CacheOutcome.SEMANTIC, CacheOutcome.COALESCED})


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One prompt, n choices.

    ``id`` is minted by the server. ``prompt_text`` is the rendered prompt, for the cache's
    semantic tier and /recent-requests; it is never logged. ``timeout`` is in seconds from
    ``arrival`` (time.monotonic()); None means the configured queue timeout alone. ``queued_since``
    is on the same clock.
    """

    id: str
    arrival: float
    tenant: str
    route: str  # the route's template, for metrics
    prompt_token_ids: tuple[int, ...]
    prompt_text: str
    sampling: SamplingParams
    n: int = 1
    priority: int = 0  # lower goes first
    timeout: float | None = None
    # When its time in the queue began, where that is not its arrival: a request that has followed
    # another one's generation until that failed has not been waiting for a slot meanwhile.
    queued_since: float | None = None
    user_text: str | None = None  # the last user message; None where there is none (token ids)
    # Everything else that decides the answer (system prompt, history, tools, …), canonical JSON.
    context: str = ""
    temperature_omitted: bool = False
    cache_control: frozenset[str] = field(default_factory=frozenset)  # request directives
    cache_threshold: float | None = None  # raises the semantic tier's threshold, never lowers it
    # Names of body fields that were accepted without being understood: such a request is never cached.
    unknown_fields: frozenset[str] = field(default_factory=frozenset)
    # Headers of its trace, for an engine that is a server itself; empty where nobody traces it.
    trace_headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChoiceDelta:
    """A delta of one of the n choices."""

    index: int
    delta: Delta


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheInfo:
    """``entry_id`` names the entry that answered or, of an answer just made, the one that keeps it."""

    outcome: CacheOutcome = CacheOutcome.BYPASS
    similarity: float | None = None
    entry_id: str | None = None
    age_seconds: float | None = None


class Answer(Protocol):
    """An admitted request. Iterate it to the end, or close it: leaving early cancels."""

    @property
    def cache(self) -> CacheInfo: ...

    def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        """Yields until every choice has had a finish_reason.

        Raises DeadlineExceeded, EngineDied or RequestFailed; before the first delta these mean
        that nothing was generated, so the API can still answer with a status code.
        """
        ...

    async def aclose(self) -> None:
        """Cancel what still runs. Idempotent."""
        ...


class Pipeline(Protocol):
    async def submit(self, request: GenerationRequest) -> Answer:
        """Admit (or find in the cache) and return at once, without waiting for a slot.

        Raises InvalidRequest, Overloaded, EngineNotReady, DeadlineExceeded.
        """
        ...
