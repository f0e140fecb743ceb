"""What is known of single entries: whether their answers fitted earlier questions, and the threshold that
follows from it.

A label is a score and a bit. It belongs to an entry's id, which covers tenant, model and all the rest of
an identity, and goes when the entry expires or is purged; no text is kept. An entry that was evicted as wrong
keeps its label, for when the same question makes it anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ferry_runtime.cache.messages import Judged, Scope
from ferry_runtime.cache.semantic.learning import step, threshold

MOST_ENTRIES = 20_000  # with labels; about 400 bytes each
MOST_LABELS = 16  # of one entry: the latest
_RIGHT = 0x80
_STEP = 0x7F


@dataclass(slots=True)
class _Known:
    owner: str
    model: str
    expires: float
    labels: bytes
    threshold: float


class Labels:
    """``marks``: the verifier's accept and grey scores, on which thresholds rest."""

    def __init__(self, marks: Callable[[], tuple[float, float]], most: int = MOST_ENTRIES) -> None:
        self._marks = marks
        self._most = most
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def threshold(self, entry_id: str, now: float) -> float | None:
        """The lowest score at which the entry may answer; None: nothing is known, the verifier decides."""
        known = self._known.get(entry_id)
        return known.threshold if known is not None and now < known.expires else None

    def add(self, judged: Judged, now: float) -> None:
        if now >= judged.expires:
            return
        known = self._known.pop(judged.id, None)
        before = known.labels if known is not None and now < known.expires else b""
        labels = (before + bytes((judged.label & 0xFF,)))[-MOST_LABELS:]
        accept, grey = self._marks()
        learned = threshold([(label & _STEP, bool(label & _RIGHT)) for label in labels], accept, grey)
        self._known[judged.id] = _Known(judged.owner, judged.model, judged.expires, labels, learned)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def purge(self, scope: Scope) -> None:
        named = self._known if scope.ids is None else scope.ids & self._known.keys()
        doomed = [entry_id for entry_id in named if self._covered(entry_id, scope)]
        for entry_id in doomed:
            del self._known[entry_id]

    def sweep(self, now: float) -> None:
        """Free what has expired. Only memory depends on it."""
        for entry_id in [entry_id for entry_id, known in self._known.items() if now >= known.expires]:
            del self._known[entry_id]

    def _covered(self, entry_id: str, scope: Scope) -> bool:
        known = self._known[entry_id]
        return scope.covers(entry_id=entry_id, tenant=known.owner, model=known.model)


def encode(score: float, *, right: bool) -> int:
    """One label as a byte: the score in 128 steps, and the bit."""
    return step(score) | (_RIGHT if right else 0)
