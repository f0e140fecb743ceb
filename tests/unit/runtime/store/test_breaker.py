"""When the store is left alone, and when it is asked again."""

from ferry_runtime.store.breaker import Breaker, BreakerSettings, BreakerState


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker(BreakerSettings(failures=3, first_pause=1.0, longest_pause=3.0))
    assert [breaker.failed(now) for _ in range(3)] == [False, False, True]
    return breaker


def test_failures_in_a_row_open_it_once() -> None:
    breaker = opened()
    assert not breaker.allows()
    assert breaker.failed(0.0) is False  # a late call of before: no second log line


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker(BreakerSettings(failures=2))
    for _ in range(5):
        breaker.failed(0.0)
        assert breaker.succeeded() is False
    assert breaker.allows()


def test_one_probe_at_a_time() -> None:
    breaker = opened()
    assert not breaker.probe_due(0.5)
    assert breaker.probe_due(1.0)
    assert not breaker.probe_due(1.0)
    assert breaker.state is BreakerState.PROBING


def test_a_good_probe_closes_it() -> None:
    breaker = opened()
    breaker.probe_due(1.0)
    assert breaker.succeeded() is True
    assert breaker.allows()


def test_pauses_grow_to_a_bound_and_start_small_again() -> None:
    breaker = opened()
    now, pauses = 0.0, []
    for _ in range(4):
        start = now
        while not breaker.probe_due(now):
            now += 0.25
        pauses.append(now - start)
        breaker.failed(now)
    assert pauses == [1.0, 2.0, 3.0, 3.0]
    breaker.succeeded()
    assert breaker.failed(now) is False
