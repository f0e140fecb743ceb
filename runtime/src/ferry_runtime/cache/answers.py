"""Answers that are not live generations: a stored one replayed, a generation relabelled."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ferry_runtime.cache.contract import Reprioritised
from ferry_runtime.cache.entry import Entry
from ferry_runtime.cache.recording import replay
from ferry_runtime.cache.tiers import Candidate
from ferry_runtime.generation import Answer, CacheInfo, CacheOutcome, ChoiceDelta


class ReplayAnswer:
    """A stored answer under the caller's own request id. ``score``: the verifier's, of a semantic hit."""

    def __init__(self, entry: Entry, request_id: str, info: CacheInfo, score: float | None = None) -> None:
        self._entry = entry
        self._request_id = request_id
        self._info = info
        self.score = score

    @property
    def cache(self) -> CacheInfo:
        return self._info

    @property
    def entry(self) -> Entry:
        return self._entry

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        for item in replay(self._entry.choices, self._request_id):
            yield item

    async def aclose(self) -> None:
        """Nothing runs."""


def hit(entry: Entry, request_id: str, now: float, found: Candidate | None = None) -> ReplayAnswer:
    """``found``: how the semantic tier came by the entry."""
    similarity = found.similarity if found is not None else None
    info = CacheInfo(
        outcome=CacheOutcome.EXACT if similarity is None else CacheOutcome.SEMANTIC,
        similarity=similarity,
        entry_id=entry.id,
        age_seconds=max(0.0, now - entry.created),
    )
    return ReplayAnswer(entry, request_id, info, found.score if found is not None else None)


class Labelled:
    """A live answer with what the cache has to say about it."""

    def __init__(self, answer: Answer, info: CacheInfo) -> None:
        self._answer = answer
        self._info = info

    @property
    def cache(self) -> CacheInfo:
        return self._info

    def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        return self._answer.__aiter__()

    async def aclose(self) -> None:
        await self._answer.aclose()

    def raise_priority(self, priority: int) -> None:
        inner: object = self._answer
        if isinstance(inner, Reprioritised):
            inner.raise_priority(priority)
