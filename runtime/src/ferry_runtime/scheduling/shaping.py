"""The batch window and the batch limit over time: constant, or following the load.

*Fixed* is the declared constants exactly. *Adaptive* takes them as upper bounds:

* Window: waiting helps only if company is likely to come. With less than one arrival expected
  within the declared window there is none; otherwise it lasts as long as a batch takes to gather,
  but never longer than half of what the target leaves beside computing the first token.
* Limit: a decode step costs ``base + row * rows`` seconds, both measured. Rows beyond the knee of
  ``rows / (base + row * rows)`` add hardly any throughput but slow every running stream, so the
  limit is the knee, unless the queue would then miss the target: then it is the declared bound.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, exp
from typing import Protocol

from ferry_runtime.scheduling.shape import BatchShape

# Arrivals of the last few seconds tell what the next window will bring.
_ARRIVAL_MEMORY_SECONDS = 5.0

# How quickly older measurements of steps and first tokens are forgotten.
_STEP_WEIGHT = 0.02
_FIRST_TOKEN_WEIGHT = 0.1

# The knee: the fewest rows that reach this share of the throughput at the declared bound.
_KNEE = 0.95


class Shaping(Protocol):
    """Told what happens, asked for the shape before each decision. Times in seconds."""

    def arrived(self, now: float) -> None: ...

    def stepped(self, rows: int, seconds: float) -> None: ...

    def first_token(self, after_start: float) -> None:
        """``after_start``: from a slot to the first token, so without the time in the queue."""
        ...

    def shape(self, now: float, oldest_waited: float) -> BatchShape:
        """``oldest_waited``: the longest that anyone in the queue has waited; 0 if nobody waits."""
        ...


class FixedShaping:
    """The declared constants."""

    def __init__(self, declared: BatchShape) -> None:
        self._declared = declared

    def arrived(self, now: float) -> None: ...

    def stepped(self, rows: int, seconds: float) -> None: ...

    def first_token(self, after_start: float) -> None: ...

    def shape(self, now: float, oldest_waited: float) -> BatchShape:  # noqa: ARG002
        return self._declared


class AdaptiveShaping:
    """Window and limit from the arrival rate, the measured cost of a step, and the target."""

    def __init__(self, declared: BatchShape, target_first_token: float | None) -> None:
        """``target_first_token`` None: no target; only arrivals and the knee decide."""
        self._declared = declared
        self._target = target_first_token
        self._arrivals = 0.0
        self._last_arrival = 0.0
        self._steps = _StepCost()
        self._compute = 0.0  # mean seconds from a slot to the first token

    def arrived(self, now: float) -> None:
        self._arrivals = self._decayed(now) + 1.0
        self._last_arrival = now

    def stepped(self, rows: int, seconds: float) -> None:
        self._steps.add(rows, seconds)

    def first_token(self, after_start: float) -> None:
        self._compute += _FIRST_TOKEN_WEIGHT * (after_start - self._compute)

    def rate(self, now: float) -> float:
        """Arrivals per second, lately, beside the latest one: the company that it may expect."""
        return max(0.0, self._decayed(now) - 1.0) / _ARRIVAL_MEMORY_SECONDS

    def shape(self, now: float, oldest_waited: float) -> BatchShape:
        return replace(
            self._declared, batch=self._batch(oldest_waited), max_wait=self._window(self.rate(now))
        )

    def _window(self, rate: float) -> float:
        declared = self._declared
        if rate * declared.max_wait < 1.0:
            return 0.0
        gathering = (declared.batch - 1) / rate
        spare = declared.max_wait if self._target is None else (self._target - self._compute) / 2
        return max(0.0, min(declared.max_wait, gathering, spare))

    def _batch(self, oldest_waited: float) -> int:
        late = self._target is not None and oldest_waited + self._compute > self._target / 2
        return self._declared.batch if late else self._steps.knee(self._declared.batch)

    def _decayed(self, now: float) -> float:
        return self._arrivals * exp((self._last_arrival - now) / _ARRIVAL_MEMORY_SECONDS)


class _StepCost:
    """A line through (rows, seconds) of recent decode steps: exponentially weighted least squares."""

    def __init__(self) -> None:
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    def add(self, rows: int, seconds: float) -> None:
        keep = 1.0 - _STEP_WEIGHT
        self._n = self._n * keep + 1.0
        self._x = self._x * keep + rows
        self._y = self._y * keep + seconds
        self._xx = self._xx * keep + rows * rows
        self._xy = self._xy * keep + rows * seconds

    def knee(self, bound: int) -> int:
        """The fewest rows with `_KNEE` of the throughput at ``bound``; ``bound`` until measured."""
        spread = self._n * self._xx - self._x * self._x
        if self._n < 10 or spread < 1e-6 * self._n * self._n:
            return bound  # steps of one size only: nothing to draw a line through
        row = (self._n * self._xy - self._x * self._y) / spread
        base = (self._y - row * self._x) / self._n
        if row <= 0 or base < 0:
            return bound
        # rows / (base + row * rows) >= _KNEE * bound / (base + row * bound), solved for rows.
        wanted = _KNEE * bound / (base + row * bound)
        return max(1, min(bound, ceil(wanted * base / (1.0 - wanted * row) - 1e-9)))
