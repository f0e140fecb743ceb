"""Percentiles of the latest values, exact and sketched."""

from __future__ import annotations

import math
import random

import pytest

from ferry_runtime.windows import Sketch, Window


def test_an_empty_window_is_all_zeros() -> None:
    spread = Window().spread()
    assert (spread.count, spread.mean, spread.p50, spread.p95, spread.p99) == (0, 0.0, 0.0, 0.0, 0.0)


def test_percentiles_are_values_that_occurred() -> None:
    window = Window()
    for value in range(100, 0, -1):
        window.add(value)
    spread = window.spread()
    assert (spread.count, spread.mean, spread.p50, spread.p95, spread.p99) == (100, 50.5, 50, 95, 99)


def test_a_window_forgets_the_oldest() -> None:
    window = Window(3)
    for value in (900, 1, 2, 3):
        window.add(value)
    assert (window.spread().count, window.spread().p99) == (3, 3)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("scale", [0.001, 1.0, 5_000.0])
def test_a_sketch_is_within_two_percent(share: float, scale: float) -> None:
    values = sorted(scale * random.Random(4).lognormvariate(0, 2) for _ in range(3_000))
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    assert sketch.quantile(share) == pytest.approx(values[math.ceil(share * 3_000) - 1], rel=0.0201)


def test_a_sketch_of_nothing_says_nothing_and_zero_is_no_error() -> None:
    sketch = Sketch()
    assert sketch.quantile(0.5) is None
    sketch.add(0.0)
    assert sketch.quantile(0.5) == pytest.approx(0.0, abs=1e-5)
