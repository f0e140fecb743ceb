"""The latest pairs of questions that the verifier compared, for an administrator to look at."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import msgspec

from ferry_runtime.cache.semantic.index import Near
from ferry_runtime.cache.semantic.verifier import Decision, Verdict

_KEPT = 50
_SHOWN = 200  # characters of a question


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """``asked`` was compared with the question ``stored`` with ``entry``. ``reason`` is the rule that
    refused it, or score. ``timestamp`` is in Unix seconds, ``similarity`` the cosine."""

    timestamp: float
    asked: str
    stored: str
    entry: str
    similarity: float
    accepted: bool
    reason: str


class Comparisons:
    """A ring, newest first. It holds questions: nothing but an admin route may read it."""

    def __init__(self) -> None:
        self._ring: deque[Compared] = deque(maxlen=_KEPT)

    def add(self, question: str, near: Sequence[Near], decisions: Sequence[Decision]) -> None:
        """One lookup: the candidate that was accepted, else the nearest one that was not."""
        pairs = list(zip(near, decisions, strict=True))
        if not pairs:
            return
        accepted = next((pair for pair in pairs if pair[1].verdict is Verdict.ACCEPT), None)
        candidate, decision = accepted or pairs[0]
        self._ring.appendleft(
            Compared(
                timestamp=time.time(),
                asked=_shortened(question),
                stored=_shortened(candidate.row.question),
                entry=candidate.row.id,
                similarity=round(candidate.cosine, 4),
                accepted=accepted is not None,
                reason=decision.reason,
            )
        )

    def latest(self) -> list[Compared]:
        return list(self._ring)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
