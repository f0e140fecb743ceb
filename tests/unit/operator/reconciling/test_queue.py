"""The keyed queue: once each, one at a time, later after each failure, at once upon news."""

from __future__ import annotations

import asyncio

import pytest

from ferry_operator.metrics import Metrics
from ferry_operator.observing.store import Key
from ferry_operator.reconciling.queue import KeyedQueue

A, B = Key("team", "a"), Key("team", "b")


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def queue(clock):
    return KeyedQueue(Metrics(), clock=clock, jitter=lambda: 1.0, rest=0.0)


@pytest.fixture
def resting(clock):
    return KeyedQueue(Metrics(), clock=clock, jitter=lambda: 1.0, rest=0.5)


async def taken(queue):
    """What can be taken at this moment."""
    found = []
    while True:
        try:
            async with asyncio.timeout(0.01):
                found.append(await queue.get())
        except TimeoutError:
            return found


async def test_keys_come_in_order_and_once(queue):
    for key in (A, B, A, A):
        queue.add(key)
    assert await taken(queue) == [A, B]


async def test_a_key_that_is_worked_on_waits_for_its_end(queue):
    queue.add(A)
    assert await queue.get() == A
    queue.add(A)
    assert await taken(queue) == []
    queue.done(A)
    assert await taken(queue) == [A]


async def test_a_key_without_news_is_not_worked_on_again(queue):
    queue.add(A)
    await queue.get()
    queue.done(A)
    assert await taken(queue) == []


async def test_failures_wait_longer_each_time_up_to_a_minute(queue, clock):
    delays = []
    for _ in range(12):
        queue.add(A)
        await queue.get()
        delays.append(queue.failed(A))
    assert delays[:4] == [0.25, 0.5, 1.0, 2.0]
    assert delays[-1] == 60.0


async def test_a_failed_key_comes_back_by_itself(queue, clock):
    queue.add(A)
    await queue.get()
    delay = queue.failed(A)
    assert await taken(queue) == []
    clock.now += delay
    assert await taken(queue) == [A]


async def test_success_forgets_the_failures(queue, clock):
    queue.add(A)
    await queue.get()
    clock.now += queue.failed(A)
    await queue.get()
    queue.done(A)
    queue.add(A)
    await queue.get()
    assert queue.failed(A) == 0.25


async def test_news_does_not_wait_for_the_delay(queue):
    queue.add(A)
    await queue.get()
    queue.failed(A)
    queue.add(A)
    assert await taken(queue) == [A]


async def test_the_earlier_of_two_later_times_counts_and_only_once(queue, clock):
    queue.add_after(A, 10)
    queue.add_after(A, 1)
    queue.add_after(A, 5)
    clock.now += 1
    assert await taken(queue) == [A]
    queue.done(A)
    clock.now += 100
    assert await taken(queue) == []


async def test_a_forgotten_key_does_not_come_back(queue, clock):
    queue.add(A)
    queue.add_after(B, 1)
    queue.forget(A)
    queue.forget(B)
    clock.now += 10
    assert await taken(queue) == []


async def test_a_burst_of_news_after_a_reconcile_is_one_more_reconcile(resting, clock):
    resting.add(A)
    await resting.get()
    resting.add(A)
    resting.done(A)
    for _ in range(5):
        clock.now += 0.09
        resting.add(A)
    assert await taken(resting) == []
    clock.now += 0.06
    assert await taken(resting) == [A]


async def test_news_about_a_key_at_rest_for_long_does_not_wait(resting, clock):
    resting.add(A)
    await resting.get()
    resting.done(A)
    clock.now += 0.6
    resting.add(A)
    assert await taken(resting) == [A]


@pytest.mark.parametrize("when", ["while it is worked on", "while it rests", "while it waits"])
async def test_what_a_user_asks_for_goes_first_and_does_not_wait(resting, clock, when):
    resting.add(A)
    await resting.get()
    if when == "while it is worked on":
        resting.add(A, first=True)
    resting.done(A)
    resting.add(B)
    if when == "while it waits":
        clock.now += 0.6
        resting.add(A)
    if when != "while it is worked on":
        resting.add(A, first=True)
    assert await taken(resting) == [A, B]


async def test_a_waiting_worker_is_woken():
    queue = KeyedQueue(Metrics())
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add(A)
    assert await asyncio.wait_for(waiting, 5) == A
