"""The life of ProcessBackend around a real engine process that runs a real (tiny) model."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import until

from ferry_api.runtime_config import ColdConfig, ModelConfig
from ferry_runtime.engine.protocol import EngineState, FinishReason
from ferry_runtime.errors import EngineDied, EngineLoadError, EngineNotReady
from ferry_runtime.process import Backoff

from .conftest import MakeBackend, Steps, alive, answer, ask, rest_of, tokens


async def test_ready_means_that_it_has_generated(make_backend: MakeBackend) -> None:
    stages: list[str] = []
    states: list[EngineState] = []
    steps = Steps()
    backend = make_backend(on_progress=lambda stage, _: stages.append(stage), on_stats=steps)
    backend.on_state(states.append)
    assert backend.state is EngineState.LOADING
    with pytest.raises(EngineNotReady):
        backend.generate(ask("early"))
    with pytest.raises(EngineNotReady):
        _ = backend.info
    await backend.start()
    assert states == [EngineState.READY]
    assert steps.all[-1].generated_tokens == 2
    assert "weights" in stages
    assert (backend.info.family, backend.info.slots, backend.info.vocab_size) == ("llama", 4, 320)
    deltas = await answer(backend, ask("first"))
    assert len(tokens(deltas)) == 20
    assert deltas[-1].finish_reason is FinishReason.LENGTH
    assert backend.heartbeat_age < 60


async def test_an_engine_that_has_nothing_to_do_says_so(make_backend: MakeBackend) -> None:
    """By a step, when an answer ends; when the last client leaves there is none, nor after a death."""
    steps = Steps()
    backend = make_backend(on_stats=steps)
    await backend.start()
    stream = backend.generate(ask("left", max_tokens=3000))
    await anext(stream)
    assert steps.all[-1].running == 1
    await stream.aclose()
    await until(lambda: steps.all[-1].running == 0)
    stream = backend.generate(ask("lost", max_tokens=3000))
    await anext(stream)
    assert backend.pid is not None
    os.kill(backend.pid, signal.SIGKILL)
    with pytest.raises(EngineDied):
        await rest_of(stream)
    assert steps.all[-1].running == 0


async def test_kill_9_fails_open_requests_and_serves_again_by_itself(make_backend: MakeBackend) -> None:
    backend = make_backend(slots=2)
    await backend.start()
    states: list[EngineState] = []
    backend.on_state(states.append)
    before = tokens(await answer(backend, ask("before")))
    streams = [backend.generate(ask(str(n), max_tokens=3000)) for n in range(5)]
    await anext(streams[0])
    pid = backend.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    for stream in streams:
        with pytest.raises(EngineDied):
            await rest_of(stream)
    with pytest.raises(EngineNotReady):
        backend.generate(ask("too soon"))
    await backend.wait_state(EngineState.READY)
    assert states == [EngineState.RESTARTING, EngineState.READY]
    assert backend.restarts == 1
    assert not alive(pid)
    assert tokens(await answer(backend, ask("after"))) == before


async def test_a_hung_engine_is_killed_and_replaced(make_backend: MakeBackend) -> None:
    backend = make_backend(hang_seconds=1.0)
    await backend.start()
    stream = backend.generate(ask("open", max_tokens=3000))
    await anext(stream)
    pid = backend.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(EngineDied):
        await rest_of(stream)
    await backend.wait_state(EngineState.READY)
    assert len(tokens(await answer(backend, ask("after")))) == 20


async def test_a_model_that_cannot_be_loaded_says_why_and_is_not_tried_again(
    make_backend: MakeBackend, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no-such-family", "architectures": ["No"]}')
    backend = make_backend(tmp_path)
    with pytest.raises(EngineLoadError, match="no-such-family"):
        await backend.start()
    assert backend.state is EngineState.FAILED
    assert backend.restarts == 0
    assert backend.pid is None


async def test_a_process_that_keeps_dying_is_given_up(make_backend: MakeBackend) -> None:
    backend = make_backend(
        worker_module="no_such_worker", backoff=Backoff(first_seconds=0.01, quick_failures=2)
    )
    with pytest.raises(EngineLoadError, match="exit code 1"):
        await backend.start()
    assert backend.restarts == 1


async def test_stop_ends_the_process_and_every_stream(make_backend: MakeBackend) -> None:
    backend = make_backend()
    await backend.start()
    pid = backend.pid
    assert pid is not None
    stream = backend.generate(ask("open", max_tokens=3000))
    await anext(stream)
    await backend.stop()
    with pytest.raises(EngineDied):
        await rest_of(stream)
    assert backend.state is EngineState.STOPPED
    assert not alive(pid)


PARENT = """
import asyncio, sys
from pathlib import Path
from ferry_api.runtime_config import ColdConfig
from ferry_runtime.engine.backend import ProcessBackend

async def main():
    backend = ProcessBackend(Path(sys.argv[1]), ColdConfig.model_validate_json(sys.argv[2]))
    await backend.start()
    print(backend.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_the_engine_dies_with_a_killed_parent(tiny_llama: Path) -> None:
    cold = ColdConfig(model=ModelConfig(source=f"file://{tiny_llama}", served_name="tiny"))
    command = [sys.executable, "-c", PARENT, str(tiny_llama), cold.model_dump_json()]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as parent:
        try:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
        finally:
            parent.kill()
    while alive(child):
        time.sleep(0.01)
