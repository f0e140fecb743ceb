"""When a failed child is started again."""

from ferry_runtime.process import Backoff

backoff = Backoff(first_seconds=0.5, factor=2, longest_seconds=3, quick_failures=5, stable_seconds=10)


def test_delays_double_up_to_the_longest() -> None:
    assert [backoff.delay(failures) for failures in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 3.0]


def test_gives_up_after_the_last_quick_failure() -> None:
    assert backoff.delay(5) is None


def test_a_life_that_stayed_healthy_clears_the_count() -> None:
    assert backoff.failures_after(4, healthy_seconds=10) == 1


def test_a_short_life_adds_to_the_count() -> None:
    assert backoff.failures_after(3, healthy_seconds=9.9) == 4
