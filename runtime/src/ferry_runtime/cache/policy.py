"""Which requests may read the cache, which answers may enter it, and who may be served them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ferry_api.runtime_config import SampledRequests
from ferry_runtime.cache.entry import Entry
from ferry_runtime.generation import GenerationRequest

# Encoded, of one answer. A larger one takes the place of hundreds, and replicas read them by hundreds.
MOST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Directives:
    """Request Cache-Control (RFC 9111, section 5.2.1). ``max_age`` is in seconds."""

    no_cache: bool = False
    no_store: bool = False
    only_if_cached: bool = False
    max_age: float | None = None

    @property
    def particular(self) -> bool:
        """Wants something of an answer that another request's answer need not have."""
        return self.no_cache or self.max_age is not None


def directives(names: Iterable[str]) -> Directives:
    """Unknown directives are ignored, as the RFC says; a malformed max-age counts as 0."""
    given = {}
    for name in names:
        key, _, value = name.strip().lower().partition("=")
        given[key.strip()] = value.strip().strip('"')
    age: float | None = None
    if "max-age" in given:
        age = float(given["max-age"]) if given["max-age"].isdecimal() else 0.0
    return Directives(
        no_cache="no-cache" in given or age == 0,
        no_store="no-store" in given,
        only_if_cached="only-if-cached" in given,
        max_age=age,
    )


def sampled_allowed(request: GenerationRequest, setting: SampledRequests) -> bool:
    """May an answer drawn at random stand for the next request's? Greedy ones always may."""
    if request.sampling.temperature == 0 or setting is SampledRequests.ALWAYS:
        return True
    return setting is SampledRequests.WHEN_OMITTED and request.temperature_omitted


def storable(entry: Entry) -> bool:
    """Finished and non-empty; errors never become entries in the first place."""
    return bool(entry.choices) and all(choice.text for choice in entry.choices)


def serves_exactly(entry: Entry, now: float, max_age: float | None) -> bool:
    return not entry.expired(now) and (max_age is None or now - entry.created <= max_age)


def serves_semantically(entry: Entry, request: GenerationRequest, now: float, max_age: float | None) -> bool:
    """An answer cut off by its limit fits only the request that set that limit, and nobody gets
    more tokens than asked for."""
    longest = max((len(choice.token_ids) for choice in entry.choices), default=0)
    return (
        serves_exactly(entry, now, max_age)
        and entry.finished_by_itself
        and longest <= request.sampling.max_tokens
    )
