"""How many prompt tokens of which sequences a step computes: pure decisions.

Streams that run must not stutter while prompts are computed, so next to decode rows a step takes
only so many prompt tokens as it may take twice as long as without. Among prompts the shortest
remainder goes first, which lets short requests start while a long one is being computed; every
fourth step the oldest goes first, so a long one always gets at least a quarter of the work.
"""

from __future__ import annotations

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

    ``shares`` is false for one that must compute all its tokens itself.
    """

    sequence: int
    tokens: Sequence[int]
    computed: int
    arrival: int
    shares: bool = True

    @property
    def remaining(self) -> int:
        return len(self.tokens) - self.computed


@dataclass(frozen=True, slots=True)
class Chunk:
    sequence: int
    count: int


def plan_prefill(
    prompts: Sequence[Prompt], budget: int, turn: int, *, fixed_chunk: int | None = None
) -> list[Chunk]:
    """Chunks for one step, of at most ``budget`` tokens together (but always at least one chunk).

    ``turn`` counts the steps that computed prompt tokens. ``fixed_chunk`` (Deterministic) makes
    chunks end at its multiples or at the prompt's end. A prompt whose next tokens another chunk of
    this step computes waits, to adopt them afterwards.
    """
    oldest_first = turn % OLDEST_FIRST_EVERY == OLDEST_FIRST_EVERY - 1
    order = sorted(prompts, key=lambda prompt: (0 if oldest_first else prompt.remaining, prompt.arrival))
    chunks: list[Chunk] = []
    taken: list[tuple[Prompt, int]] = []
    for prompt in order:
        count = _chunk_size(prompt, budget, fixed_chunk)
        crumb = fixed_chunk is None and count < min(prompt.remaining, _FEWEST_TOKENS)
        fits = count <= budget and not crumb
        if (chunks and not fits) or any(_will_share(prompt, other, end) for other, end in taken):
            continue
        chunks.append(Chunk(prompt.sequence, count))
        taken.append((prompt, prompt.computed + count))
        budget -= count
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
    return prompt.shares and prompt.computed < until <= end and prompt.tokens[:until] == other.tokens[:until]


class PrefillBudget:
    """Prompt tokens that a step may compute, from costs measured at load and corrected by what
    steps really take (attention over a long prompt costs more, a small decode batch less)."""

    _WEIGHT = 0.2  # of the latest step in the running averages
    _DRIFT = 8.0  # how far an average may move from what was measured at load

    def __init__(self, cost: StepCost, max_batched_tokens: int | None = None) -> None:
        self._cost = cost
        self._most = max_batched_tokens
        self._decode_seconds = cost.decode_seconds
        self._seconds_per_token = cost.prefill_seconds_per_token

    def tokens(self, decode_rows: int) -> int:
        per_token = max(self._seconds_per_token, 1e-9)
        if decode_rows:
            wanted = max(_FEWEST_TOKENS, int(self._decode_seconds / per_token))
        else:
            wanted = max(self._cost.chunk_tokens, int(_ALONE_SECONDS / per_token))
        wanted = min(wanted, _ALONE_MOST_TOKENS)
        return max(1, wanted if self._most is None else min(wanted, self._most - decode_rows))

    def observe(self, decode_rows: int, prefill_tokens: int, seconds: float) -> None:
        if decode_rows and not prefill_tokens:
            self._decode_seconds = self._average(self._decode_seconds, seconds, self._cost.decode_seconds)
        elif prefill_tokens:
            added = max(0.0, seconds - (self._decode_seconds if decode_rows else 0.0))
            self._seconds_per_token = self._average(
                self._seconds_per_token, added / prefill_tokens, self._cost.prefill_seconds_per_token
            )

    def _average(self, value: float, latest: float, measured: float) -> float:
        value += self._WEIGHT * (latest - value)
        return min(max(value, measured / self._DRIFT), measured * self._DRIFT)
