"""Distributions of what happened lately, in bounded memory."""

from __future__ import annotations

import math
from collections import Counter, deque

import msgspec

# A sketch's quantiles are at most this share off (C. Masson et al., DDSketch, VLDB 2019, section 2).
_ERROR = 0.02
_GAMMA = (1 + _ERROR) / (1 - _ERROR)
_LOG_GAMMA = math.log(_GAMMA)
_SMALLEST = 1e-6


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Exact nearest-rank percentiles of the latest ``count`` values, in their unit; 0 without any."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float


class Window:
    """The latest values, all of them kept."""

    def __init__(self, size: int = 1024) -> None:
        self._values: deque[float] = deque(maxlen=size)

    def add(self, value: float) -> None:
        self._values.append(value)

    def spread(self) -> Spread:
        ordered = sorted(self._values)
        count = len(ordered)

        def rank(share: float) -> float:
            return ordered[math.ceil(share * count) - 1] if count else 0.0

        return Spread(
            count=count,
            mean=sum(ordered) / count if count else 0.0,
            p50=rank(0.50),
            p95=rank(0.95),
            p99=rank(0.99),
        )


class Sketch:
    """Any number of positive values in a few hundred counts at most; quantiles within 2 %."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, value: float) -> None:
        self._counts[math.ceil(math.log(max(value, _SMALLEST)) / _LOG_GAMMA)] += 1

    def quantile(self, share: float) -> float | None:
        """None while there is nothing in it."""
        total = self._counts.total()
        if not total:
            return None
        rank = max(1, math.ceil(share * total))
        for bin_, count in sorted(self._counts.items()):
            rank -= count
            if rank <= 0:
                return float(2 * _GAMMA**bin_ / (_GAMMA + 1))
        return None  # cannot be: the counts add up to the total
