"""What a request will cost, in tokens: its prompt, and the output that is expected of it.

The expected output is learned from what the served model really generated. Clients ask for far
more than models say (a chat without max_tokens may use the whole context), so the limit alone
is no estimate; but answers cut at a small limit have that limit's length. Requests are therefore
grouped by the power of two of their limit and each group keeps a moving average.
"""

from __future__ import annotations

# Before anything was generated: a chat answer's usual length, cut at the limit.
_PRIOR_TOKENS = 128.0

# Each answer moves its group's average by this share: about the last twenty answers count.
_STEP = 0.1


class OutputEstimator:
    """Learns how long answers are. One per served model; memory is one number per power of two."""

    def __init__(self) -> None:
        self._averages: dict[int, float] = {}

    def expect(self, max_tokens: int, min_tokens: int = 0) -> float:
        """Expected generated tokens of one sequence, between min_tokens and max_tokens."""
        known = self._averages.get(_group(max_tokens), self._nearest(max_tokens))
        return max(float(min(min_tokens, max_tokens)), min(known, float(max_tokens)))

    def learn(self, max_tokens: int, generated: int) -> None:
        """Record the length of an answer that ended by itself (not cancelled, not failed)."""
        group = _group(max_tokens)
        known = self._averages.get(group)
        if known is None:
            self._averages[group] = float(generated)
        else:
            self._averages[group] = known + _STEP * (generated - known)

    def _nearest(self, max_tokens: int) -> float:
        """A group without answers borrows from the nearest one above, else below."""
        if not self._averages:
            return _PRIOR_TOKENS
        group = _group(max_tokens)
        above = [known for known in self._averages if known > group]
        return self._averages[min(above) if above else max(self._averages)]


def _group(max_tokens: int) -> int:
    return max(max_tokens, 1).bit_length()
