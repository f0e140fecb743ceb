"""Requests in a real engine process: neighbours, leaving, queueing, pausing, failing alone."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from ferry_api.runtime_config import Numerics
from ferry_runtime.engine.backend import ProcessBackend
from ferry_runtime.errors import RequestFailed

from .conftest import CONTEXT, Steps, answer, ask, backend_for, rest_of, tokens

# Starting an engine takes seconds: the tests of this module share three.
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Shared:
    def __init__(self, backend: ProcessBackend, steps: Steps) -> None:
        self.backend = backend
        self.steps = steps

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The engine process does nothing meanwhile, so what is sent reaches it together."""
        pid = self.backend.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


async def share(directory: Path, slots: int, numerics: Numerics = Numerics.FAST) -> AsyncIterator[Shared]:
    steps = Steps()
    backend = backend_for(directory, slots=slots, numerics=numerics, on_stats=steps)
    try:
        await backend.start()
        yield Shared(backend, steps)
    finally:
        await backend.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def narrow(tiny_llama: Path) -> AsyncIterator[Shared]:
    """One slot."""
    async for shared in share(tiny_llama, 1):
        yield shared


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=list(Numerics))
async def wide(tiny_llama: Path, request: pytest.FixtureRequest) -> AsyncIterator[Shared]:
    """Four slots, with each kind of numerics."""
    async for shared in share(tiny_llama, 4, request.param):
        yield shared


async def test_tokens_do_not_depend_on_the_neighbours(wide: Shared) -> None:
    watched = {
        "seeded": ask("seeded", seed=17, temperature=0.9),
        "greedy": ask("greedy", "Die Elbe"),
        "truncated": ask("truncated", "x", seed=5, temperature=1.2, top_p=0.8, max_tokens=10),
    }
    solo = {name: tokens(await answer(wide.backend, request)) for name, request in watched.items()}
    for round_number in range(4):
        others = [
            ask(f"other {number}", "abc" * number, temperature=1.0, max_tokens=5 * number)
            for number in range(1, 5)
        ]
        requests = [*others[:round_number], *watched.values(), *others[round_number:]]
        results = await asyncio.gather(*(answer(wide.backend, request) for request in requests))
        for request, result in zip(requests, results, strict=True):
            if request.request_id in solo:
                assert tokens(result) == solo[request.request_id]


async def test_requests_run_in_one_batch_and_leave_nothing_behind(wide: Shared) -> None:
    await asyncio.gather(*(answer(wide.backend, ask(str(n), "abc" * (n + 1))) for n in range(4)))
    assert max(step.decode_rows for step in wide.steps.all) == 4
    stats = wide.backend.stats
    assert (stats.running, stats.waiting, stats.kv_blocks_used) == (0, 0, 0)


async def test_a_request_that_cannot_be_computed_fails_alone(wide: Shared) -> None:
    good = asyncio.ensure_future(answer(wide.backend, ask("good", max_tokens=100)))
    with pytest.raises(RequestFailed, match="vocabulary"):
        await answer(wide.backend, ask("bad", stop_token_ids=(999_999,), min_tokens=2))
    with pytest.raises(RequestFailed, match="context"):
        await answer(wide.backend, ask("long", max_tokens=CONTEXT))
    assert len(tokens(await good)) == 100


async def test_log_probabilities_cross_the_border_whole(wide: Shared) -> None:
    prompt = "wake \U0001f6a2"
    deltas = await answer(wide.backend, ask("lp", prompt, logprobs=3, prompt_logprobs=2, max_tokens=9))
    entries = [entry for delta in deltas for entry in delta.logprobs]
    assert [entry.token.token_id for entry in entries] == tokens(deltas)
    assert all(len(entry.top) == 3 for entry in entries)
    # Greedy: the chosen token is the likeliest.
    assert all(entry.token == entry.top[0] for entry in entries)
    prompt_entries = deltas[0].prompt_logprobs
    assert prompt_entries is not None
    assert b"".join(entry.token.raw for entry in prompt_entries) == prompt.encode()


async def test_closing_a_stream_frees_its_slot(narrow: Shared) -> None:
    backend = narrow.backend
    stream = backend.generate(ask("leaves", max_tokens=4000))
    await anext(stream)
    with narrow.stopped():
        before = backend.stats.generated_tokens
        await stream.aclose()
        last = backend.generate(ask("next", max_tokens=2))
    assert len(tokens(await rest_of(last))) == 2
    assert backend.stats.generated_tokens - before < 4000


async def test_twenty_queued_requests_that_leave_generate_nothing(narrow: Shared) -> None:
    backend = narrow.backend
    with narrow.stopped():
        before = backend.stats.generated_tokens
        running = backend.generate(ask("running", max_tokens=40))
        gone = [backend.generate(ask(f"gone {n}")) for n in range(20)]
        for stream in gone[:10]:
            await stream.aclose()
        del stream, gone  # ten are closed, ten forgotten
        await asyncio.sleep(0)
        live = backend.generate(ask("live", max_tokens=3))
    assert len(tokens(await rest_of(running))) == 40
    assert len(tokens(await rest_of(live))) == 3
    assert backend.stats.generated_tokens - before == 43
    assert (backend.stats.waiting, backend.stats.running) == (0, 0)


async def test_a_slow_consumer_holds_up_nobody(wide: Shared) -> None:
    slow = wide.backend.generate(ask("slow", max_tokens=100))
    await answer(wide.backend, ask("quick", "x", max_tokens=150))
    received = await rest_of(slow)
    assert len(received) < 10
    assert len(tokens(received)) == 100


async def test_a_paused_request_goes_on_with_the_same_tokens(narrow: Shared) -> None:
    backend = narrow.backend
    request = {"seed": 3, "temperature": 0.8, "max_tokens": 60}
    solo = tokens(await answer(backend, ask("solo", **request)))
    paused = backend.generate(ask("paused", **request))
    received = [await anext(paused)]
    with narrow.stopped():
        backend.pause("paused")
        urgent = backend.generate(ask("urgent", "x", max_tokens=2))
    await rest_of(urgent)
    backend.resume("paused")
    assert tokens(received + await rest_of(paused)) == solo
