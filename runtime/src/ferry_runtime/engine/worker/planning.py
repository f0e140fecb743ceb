"""How many prompt tokens of which sequences a step computes: pure decisions.

Streams that run must not stutter while prompts are computed, so next to decode rows a step takes
only so many prompt tokens that it takes no more than two and a half times as long as without. Among
prompts the shortest remainder goes first, which lets short requests start while a long one is being
computed; every fourth step the oldest goes first, so a long one always gets a quarter of the work.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ferry_runtime.engine.model.contract import MIN_KEPT_TOKENS, StepCost

OLDEST_FIRST_EVERY = 4

# With nothing running, a step's length only delays whoever comes or leaves meanwhile.
_ALONE_SECONDS = 0.5
_ALONE_MOST_TOKENS = 8192

_ADDED = 1.5  # decode steps: how much longer prompt tokens may make a step
_FEWEST_TOKENS = 8  # next to decode rows: below, a step's fixed cost outweighs what it computes
_ROUNDING = 1.05  # by so much a chunk's weight may be misjudged
_FLAT = StepCost(0.0, 0.0, 1)


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
    budget: float,
    turn: int,
    *,
    cost: StepCost = _FLAT,
    decode_rows: int = 0,
    scored_budget: int | None = None,
    fixed_chunk: int | None = None,
) -> list[Chunk]:
    """Chunks for one step, weighing at most ``budget`` together (but always at least one chunk).

    Tokens weigh more the later they stand (``cost``); those of a prompt that is cut also fill up the
    step's rows, of which there are ``decode_rows`` already.
    Of scored prompts, at most ``scored_budget`` tokens are among them: each needs a row of logits.
    ``turn`` counts the steps that computed prompt tokens. ``fixed_chunk`` (Deterministic) makes
    chunks end at its multiples or at the prompt's end. A prompt whose next tokens another chunk of
    this step computes waits, to adopt them afterwards.
    """
    oldest_first = turn % OLDEST_FIRST_EVERY == OLDEST_FIRST_EVERY - 1
    order = sorted(prompts, key=lambda prompt: (0 if oldest_first else prompt.remaining, prompt.arrival))
    chunks: list[Chunk] = []
    taken: list[tuple[Prompt, int]] = []
    rows = decode_rows
    for prompt in order:
        most = prompt.remaining if scored_budget is None or not prompt.scored else scored_budget
        if fixed_chunk is None:
            count = _chunk_size(prompt, budget, most, rows, cost)
            fits = min(prompt.remaining, _FEWEST_TOKENS) <= count <= most
            # Only the first chunk may weigh more than there is room for, since reading what comes
            # before it can take all of that alone.
            fits = fits and cost.weight(prompt.computed, count) <= budget * _ROUNDING
        else:
            count = min(prompt.remaining, fixed_chunk - prompt.computed % fixed_chunk)
            fits = count <= min(budget, most)
        if (chunks and not fits) or any(_will_share(prompt, other, end, fixed_chunk) for other, end in taken):
            continue
        chunks.append(Chunk(prompt.sequence, count))
        taken.append((prompt, prompt.computed + count))
        rows += count
        budget -= cost.weight(prompt.computed, count)
        if scored_budget is not None and prompt.scored:
            scored_budget -= count
        if budget < 1:
            break
    return chunks


def _chunk_size(prompt: Prompt, budget: float, most: int, rows: int, cost: StepCost) -> int:
    """How many tokens of a prompt fit into the budget; at least one."""
    if most >= prompt.remaining and cost.weight(prompt.computed, prompt.remaining) <= budget:
        return prompt.remaining
    read = cost.weight(prompt.computed, 0)
    roughly = max(1.0, (budget - read) / (cost.weight(prompt.computed, 1) - read))
    each = (cost.weight(prompt.computed, int(roughly)) - read) / int(roughly)
    count = max(min(_FEWEST_TOKENS, int(budget)), int((budget - read) / each))
    # A step's rows are padded to a multiple: what fits without padding, if that is anything much.
    filled = (rows + count) // cost.row_multiple * cost.row_multiple - rows
    return max(1, min(filled if filled >= _FEWEST_TOKENS else count, most, prompt.remaining))


def _will_share(prompt: Prompt, other: Prompt, end: int, fixed_chunk: int | None) -> bool:
    """Whether ``other``, computed up to ``end``, will have so much of what ``prompt`` needs next that
    it can be adopted."""
    until = prompt.computed + max(MIN_KEPT_TOKENS, fixed_chunk or 0)
    if prompt.scored or until > min(end, len(prompt.tokens) - 1):
        return False
    return prompt.tokens[:until] == other.tokens[:until]


class PrefillBudget:
    """Prompt tokens that a step may compute, from costs measured at load and corrected by what
    steps really take (attention over a long prompt costs more, a small decode batch less)."""

    def __init__(self, cost: StepCost, max_batched_tokens: int | None = None) -> None:
        self._chunk_tokens = cost.chunk_tokens
        self._most = max_batched_tokens
        self._decode_seconds = _Typical(cost.decode_seconds)
        self._seconds_per_token = _Typical(max(cost.prefill_seconds_per_token, 1e-9))

    def tokens(self, decode_rows: int) -> float:
        """What a step's chunks may weigh together (`StepCost.weight`)."""
        per_token = self._seconds_per_token.value
        if decode_rows:
            wanted = max(float(_FEWEST_TOKENS), _ADDED * self._decode_seconds.value / per_token)
        else:
            wanted = max(float(self._chunk_tokens), _ALONE_SECONDS / per_token)
        wanted = min(wanted, float(_ALONE_MOST_TOKENS))
        return max(1.0, wanted if self._most is None else min(wanted, self._most - decode_rows))

    def observe(self, decode_rows: int, weight: float, seconds: float) -> None:
        """A step with so many decode rows and chunks of this weight took so long."""
        if weight:
            added = seconds - (self._decode_seconds.value if decode_rows else 0.0)
            self._seconds_per_token.add(added / weight)
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
