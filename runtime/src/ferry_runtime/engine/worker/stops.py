"""Stop strings over a stream of text: nothing of a stop string ever leaks.

Text is held back as long as it could be the beginning of a stop string. The result depends only
on the text, not on how tokens cut it: the stop string that completes first, read character by
character, wins; among those that complete together, the longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Match:
    """``start`` and ``end`` of the stop string in the text that was searched."""

    stop: str
    start: int
    end: int


def find_stop(text: str, stops: Sequence[str]) -> Match | None:
    """The match that completes first."""
    best: Match | None = None
    for stop in stops:
        start = text.find(stop)
        if start >= 0:
            match = Match(stop, start, start + len(stop))
            if best is None or (match.end, match.start) < (best.end, best.start):
                best = match
    return best


def held_length(text: str, stops: Sequence[str]) -> int:
    """Characters at the end of ``text`` that may be the beginning of a stop string.

    ``text`` holds no whole stop string.
    """
    longest = 0
    for stop in stops:
        for length in range(min(len(stop) - 1, len(text)), longest, -1):
            if text.endswith(stop[:length]):
                longest = length
                break
    return longest


class StopFilter:
    """Feed text; get what may be shown."""

    def __init__(self, stops: Sequence[str], *, include_stop: bool = False) -> None:
        self._stops = tuple(stops)
        self._include_stop = include_stop
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """Text that is free to show. After a match, set in ``matched``, nothing more is."""
        if self.matched is not None or not self._stops:
            return "" if self.matched is not None else text
        text = self._held + text
        if match := find_stop(text, self._stops):
            self.matched, self._held = match.stop, ""
            return text[: match.end if self._include_stop else match.start]
        free = len(text) - held_length(text, self._stops)
        self._held = text[free:]
        return text[:free]

    def pass_by(self, text: str) -> str:
        """Let ``text`` through unsearched; no match begins in it or before it."""
        text, self._held = self._held + text, ""
        return text

    def flush(self) -> str:
        """The end: what was held is no stop string after all."""
        held, self._held = self._held, ""
        return held
