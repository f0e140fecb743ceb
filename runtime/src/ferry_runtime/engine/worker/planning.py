"""How many prompt tokens of which sequences a step computes: pure decisions.

Streams that run must not stutter while prompts are computed, so next to decode rows a step takes
only so many prompt tokens as it may take twice as long as without. Among prompts the shortest
remainder goes first, which lets short requests start while a long one is being computed; every
fourth step the oldest goes first, so a long one always gets at least a quarter of the work.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ferry_runtime.engine.model.contract import StepCost

OLDEST_FIRST_EVERY = 4

# With nothing running, a step's length only delays whoever comes or leaves meanwhile.
_ALONE_SECONDS = 0.5
_ALONE_MOST_TOKENS = 8192

_FEWEST_TOKENS = 8  # next to decode rows: below, a step's fixed cost outweighs what it computes
_SHARED_HEAD = 16  # tokens; fewer are computed again sooner than they are waited for


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of which the first ``computed`` tokens have keys and values. ``arrival`` is a rank.

    ``scored``: the logits of every token are wanted, so it must compute all of them itself.
    """

    sequence: int
    tokens: Sequence[int]
    computed: int
    arrival: int
    scored: bool = False

    @property
    def remaining(self) -> int:
        return len(self.tokens) - self.computed


@dataclass(frozen=True, slots=True)
class Chunk:
    sequence: int
    count: int


def plan_prefill(
    prompts: Sequence[Prompt],
    budget: int,
    turn: int,
    *,
    scored_budget: int | None = None,
    fixed_chunk: int | None = None,
) -> list[Chunk]:
    """Chunks for one step, of at most ``budget`` tokens together (but always at least one chunk).

    Of scored prompts, at most ``scored_budget`` tokens are among them: each needs a row of logits.
    ``turn`` counts the steps that computed prompt tokens. ``fixed_chunk`` (Deterministic) makes
    chunks end at its multiples or at the prompt's end. A prompt whose next tokens another chunk of
    this step computes waits, to adopt them afterwards.
    """
    oldest_first = turn % OLDEST_FIRST_EVERY == OLDEST_FIRST_EVERY - 1
    order = sorted(prompts, key=lambda prompt: (0 if oldest_first else prompt.remaining, prompt.arrival))
    chunks: list[Chunk] = []
    taken: list[tuple[Prompt, int]] = []
    for prompt in order:
        room = budget if scored_budget is None or not prompt.scored else min(budget, scored_budget)
        count = _chunk_size(prompt, room, fixed_chunk)
        crumb = fixed_chunk is None and count < min(prompt.remaining, _FEWEST_TOKENS)
        fits = count <= room and not crumb
        if (chunks and not fits) or any(_will_share(prompt, other, end) for other, end in taken):
            continue
        chunks.append(Chunk(prompt.sequence, count))
        taken.append((prompt, prompt.computed + count))
        budget -= count
        if scored_budget is not None and prompt.scored:
            scored_budget -= count
        if budget <= 0:
            break
    return chunks


def _chunk_size(prompt: Prompt, budget: int, fixed_chunk: int | None) -> int:
    if fixed_chunk is not None:
        return min(prompt.remaining, fixed_chunk - prompt.computed % fixed_chunk)
    return min(prompt.remaining, max(1, budget))


def _will_share(prompt: Prompt, other: Prompt, end: int) -> bool:
    """Whether ``other``, computed up to ``end``, will have what ``prompt`` needs next."""
    until = min(prompt.computed + _SHARED_HEAD, len(prompt.tokens) - 1)
    return not prompt.scored and prompt.computed < until <= end and prompt.tokens[:until] == other.tokens[:until]


class PrefillBudget:
    """Prompt tokens that a step may compute, from costs measured at load and corrected by what
    steps really take (attention over a long prompt costs more, a small decode batch less)."""

    def __init__(self, cost: StepCost, max_batched_tokens: int | None = None) -> None:
        self._chunk_tokens = cost.chunk_tokens
        self._multiple = cost.row_multiple
        self._most = max_batched_tokens
        self._decode_seconds = _Typical(cost.decode_seconds)
        self._seconds_per_token = _Typical(max(cost.prefill_seconds_per_token, 1e-9))

    def tokens(self, decode_rows: int) -> int:
        per_token = self._seconds_per_token.value
        if decode_rows:
            wanted = max(_FEWEST_TOKENS, int(self._decode_seconds.value / per_token))
        else:
            wanted = max(self._chunk_tokens, int(_ALONE_SECONDS / per_token))
        wanted = self._filling(min(wanted, _ALONE_MOST_TOKENS), decode_rows)
        return max(1, wanted if self._most is None else min(wanted, self._most - decode_rows))

    def _filling(self, wanted: int, decode_rows: int) -> int:
        """The number nearest to ``wanted`` with which the step's padding is empty."""
        least = self._multiple - decode_rows % self._multiple
        rest = max(0, wanted - least)
        return least + (rest + self._multiple // 2) // self._multiple * self._multiple

    def observe(self, decode_rows: int, prefill_tokens: int, seconds: float) -> None:
        if prefill_tokens:
            added = seconds - (self._decode_seconds.value if decode_rows else 0.0)
            self._seconds_per_token.add(added / prefill_tokens)
        elif decode_rows:
            self._decode_seconds.add(seconds)


class _Typical:
    """The median of the latest measurements: one step that was held up by other work on the machine
    must not decide how long the next ones are. It stays near what was measured at load."""

    _LATEST = 9
    _DRIFT = 8.0

    def __init__(self, measured: float) -> None:
        self._measured = measured
        self._latest = deque([measured] * self._LATEST, maxlen=self._LATEST)

    def add(self, value: float) -> None:
        self._latest.append(value)

    @property
    def value(self) -> float:
        median = statistics.median(self._latest)
        return min(max(median, self._measured / self._DRIFT), self._measured * self._DRIFT)
