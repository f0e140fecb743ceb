"""Five minutes in buckets: what counts where, and that nothing grows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ferry_runtime.generation import CacheOutcome
from ferry_runtime.timeline import BUCKET_SECONDS, BUCKETS, Timeline


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def buckets(self, count: int = 1) -> None:
        self.now += count * BUCKET_SECONDS


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timeline(clock: Clock) -> Timeline:
    return Timeline(clock)


def test_only_whole_buckets_are_shown(timeline: Timeline, clock: Clock) -> None:
    timeline.answered(CacheOutcome.EXACT, 0.25)
    assert sum(timeline.columns().answers["exact"]) == 0
    clock.buckets()
    columns = timeline.columns()
    assert columns.answers["exact"][-1] == 1
    assert columns.end == clock.now
    assert columns.latency_p50[-1] == pytest.approx(250, rel=0.02)


def test_every_column_is_as_long_as_the_window(timeline: Timeline) -> None:
    columns = timeline.columns()
    lists = [value for name in columns.__struct_fields__ if isinstance(value := getattr(columns, name), list)]
    assert {len(column) for column in [*lists, *columns.answers.values()]} == {BUCKETS}
    assert columns.latency_p95 == [None] * BUCKETS


def test_what_happened_counts_in_its_own_bucket(timeline: Timeline, clock: Clock) -> None:
    timeline.generated(3)
    timeline.unanswered()
    clock.buckets(2)
    timeline.generated(4)
    timeline.refused()
    timeline.stepped(2)
    timeline.stepped(5)
    timeline.first_token(0.1)
    clock.buckets()
    columns = timeline.columns()
    assert columns.tokens[-3:] == [3, 0, 4]
    assert columns.unanswered[-3:] == [1, 0, 0]
    assert columns.refused[-3:] == [0, 0, 1]
    assert columns.rows[-3:] == [0.0, 0.0, 3.5]
    assert columns.first_token_p50[-2] is None


def test_a_level_lasts_until_it_changes_and_a_bucket_shows_its_peak(timeline: Timeline, clock: Clock) -> None:
    timeline.level(4, 9)
    timeline.level(2, 1)
    clock.buckets(3)
    timeline.level(0, 0)
    clock.buckets()
    columns = timeline.columns()
    assert columns.running[-4:] == [4, 2, 2, 2]
    assert columns.waiting[-4:] == [9, 1, 1, 1]


def test_after_a_long_silence_the_past_is_gone(timeline: Timeline, clock: Clock) -> None:
    timeline.generated(7)
    clock.buckets(10 * BUCKETS)
    columns = timeline.columns()
    assert sum(columns.tokens) == 0
    assert len(columns.tokens) == BUCKETS


def test_a_clock_that_is_set_back_breaks_nothing(timeline: Timeline, clock: Clock) -> None:
    timeline.generated(1)
    clock.buckets(-5)
    timeline.generated(1)
    clock.buckets(6)
    assert sum(timeline.columns().tokens) == 2


def test_nothing_grows(timeline: Timeline, clock: Clock) -> None:
    for _ in range(3 * BUCKETS):
        timeline.answered(CacheOutcome.MISS, 1.0)
        clock.buckets()
    assert len(timeline._ring) <= BUCKETS + 1
