"""Writes are allowed only while nobody else can hold the Lease."""

from __future__ import annotations

import pytest

from ferry_operator.clients.lease import Leadership
from ferry_operator.errors import NotLeader
from ferry_operator.metrics import Metrics
from ferry_operator.settings import LeaseTimes


class Clock:
    now = 50.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def leadership(clock):
    return Leadership(LeaseTimes(lease=8, renew=5, retry=1), Metrics(), clock)


def test_not_before_the_first_renewal(leadership):
    with pytest.raises(NotLeader):
        leadership.check()


def test_until_the_renewal_runs_out_counted_from_when_it_was_sent(leadership, clock):
    leadership.renewed(sent=48.0)
    clock.now = 52.9
    leadership.check()
    clock.now = 53.0
    with pytest.raises(NotLeader):
        leadership.check()


def test_not_after_it_was_lost(leadership, clock):
    leadership.renewed(sent=clock.now)
    leadership.lost()
    with pytest.raises(NotLeader):
        leadership.check()
