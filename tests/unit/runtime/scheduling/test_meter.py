from __future__ import annotations

import pytest

from ferry_runtime.scheduling.meter import RateMeter, ReturnLine


def test_the_rate_is_that_of_busy_time():
    meter = RateMeter(prior=1.0)
    for _ in range(600):
        meter.busy(0.1)
        meter.add(5)
    assert meter.rate == pytest.approx(50, rel=0.05)


def test_the_rate_follows_a_change():
    meter = RateMeter(prior=1.0)
    for amount in [5] * 600 + [20] * 1000:
        meter.busy(0.1)
        meter.add(amount)
    assert meter.rate == pytest.approx(200, rel=0.1)


def test_nothing_measured_is_the_prior_and_never_zero():
    assert RateMeter(prior=7.0).rate == 7.0
    stalled = RateMeter(prior=1.0)
    stalled.busy(1e6)
    assert stalled.rate > 0


def test_each_refused_client_is_called_back_after_the_one_before():
    line = ReturnLine()
    waits = [line.retry_after(100.0, 2.0, 60.0) for _ in range(10)]
    assert waits == [1.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0]


def test_the_line_outside_moves_on_with_time():
    line = ReturnLine()
    for _ in range(10):
        line.retry_after(0.0, 2.0, 60.0)
    assert line.retry_after(100.0, 2.0, 60.0) == 1.0
