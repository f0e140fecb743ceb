"""Writes in two steps, of which the slow one holds nothing up."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from ferry_runtime.cache.entry import CachedChoice, Entry
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.writer import Writer
from ferry_runtime.engine.protocol import FinishReason
from ferry_runtime.errors import StoreUnavailable


def entry(name: str) -> Entry:
    choice = CachedChoice("text", (1,), FinishReason.STOP)
    return Entry(id=name, exact=b"", owner="a", model="m", created=0.0, expires=1.0, choices=(choice,))


class Steps:
    def __init__(self) -> None:
        self.done: list[str] = []
        self.fail: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.adds = True

    async def publish(self, entry: Entry, purges: int) -> bool:
        self._do("publish", entry)
        return True

    async def complete(self, entry: Entry, purges: int) -> bool:
        await self.gate.wait()
        self._do("complete", entry)
        return self.adds

    def _do(self, step: str, entry: Entry) -> None:
        if step in self.fail:
            raise StoreUnavailable("gone")
        self.done.append(f"{step} {entry.id}")


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
async def make_writer(steps: Steps) -> AsyncIterator[Callable[..., Writer]]:
    made: list[Writer] = []

    def make(**options: int) -> Writer:
        made.append(Writer(steps, CacheMetrics(), **options))
        return made[-1]

    yield make
    steps.gate.set()
    for writer in made:
        await writer.stop()


def outcomes(writer: Writer) -> dict[str, int]:
    return writer._metrics.by_labels(writer._metrics.writes)


async def test_a_slow_second_step_holds_no_first_step_up(steps, make_writer) -> None:
    writer = make_writer()
    await writer.start()
    steps.gate.clear()
    for name in "abc":
        writer.submit(entry(name), 0)
    await writer._new.join()
    assert steps.done == ["publish a", "publish b", "publish c"]
    steps.gate.set()
    await writer.drained()
    assert steps.done[3:] == ["complete a", "complete b", "complete c"]
    assert outcomes(writer) == {"stored": 3, "vector_stored": 3}


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        ("publish", {"failed": 2}),
        ("complete", {"stored": 2, "vector_failed": 2}),
    ],
)
async def test_a_failed_step_is_counted_and_ends_nothing(steps, make_writer, failing, expected) -> None:
    writer = make_writer()
    await writer.start()
    steps.fail = {failing}
    for name in "ab":
        writer.submit(entry(name), 0)
    await writer.drained()
    assert outcomes(writer) == expected


async def test_nothing_added_is_told_apart(steps, make_writer) -> None:
    writer = make_writer()
    await writer.start()
    steps.adds = False
    writer.submit(entry("a"), 0)
    await writer.drained()
    assert outcomes(writer) == {"stored": 1, "vector_missing": 1}


async def test_past_the_capacity_writes_are_given_up_and_counted(steps, make_writer) -> None:
    writer = make_writer(capacity=2)
    steps.gate.clear()
    for name in "abcd":
        writer.submit(entry(name), 0)
    await writer.start()
    await writer._new.join()
    for name in "ef":
        writer.submit(entry(name), 0)
    await writer._new.join()
    assert outcomes(writer) == {"dropped": 2, "stored": 4, "vector_dropped": 1}


async def test_stopping_waits_a_bounded_time_for_either_step(steps, make_writer) -> None:
    writer = make_writer()
    await writer.start()
    steps.gate.clear()
    for name in "ab":
        writer.submit(entry(name), 0)
    await writer.stop(patience=0.05)
    assert steps.done == ["publish a", "publish b"]
    assert outcomes(writer)["vector_dropped"] == 1
