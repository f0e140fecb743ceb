"""The engine process from its first message to its last, over a real socket but in this process."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ferry_api.runtime_config import ColdConfig, ModelConfig
from ferry_runtime.engine.protocol import Delta, FinishReason, GenerateRequest, SamplingParams
from ferry_runtime.engine.wire import (
    Cancel,
    Fatal,
    FromWorker,
    Heartbeat,
    Load,
    Progress,
    Ready,
    Step,
    Submit,
    ToWorker,
)
from ferry_runtime.engine.worker import main, serve
from ferry_runtime.errors import EngineLoadError
from ferry_runtime.process import Channel
from ferry_runtime.process.framing import GOODBYE, FrameBuffer, encode_frame

from .fake_runner import FakeRunner
from .kinds import Kind

LoadRunner = Callable[..., FakeRunner]


class Parent:
    """The other end of the channel."""

    def __init__(self, load: LoadRunner, directory: Path) -> None:
        self._ours, theirs = socket.socketpair()
        self._ours.settimeout(30)
        self._frames = FrameBuffer()
        self._received: list[FromWorker] = []
        self._decoder = msgspec.msgpack.Decoder(FromWorker)
        self._channel: Channel[ToWorker] = Channel(theirs, ToWorker)
        self.exit_code: int | None = None
        self._thread = threading.Thread(target=self._run, args=(load,), daemon=True)
        self._thread.start()
        cold = ColdConfig(model=ModelConfig(source="file:///m", served_name="m"))
        self.send(Load(str(directory), cold.model_dump_json(by_alias=True)))

    def _run(self, load: LoadRunner) -> None:
        self.exit_code = main.run(self._channel, load)

    def send(self, message: ToWorker) -> None:
        self._ours.sendall(encode_frame(message))

    def receive(self) -> FromWorker:
        while not self._received:
            data = self._ours.recv(65536)
            assert data
            self._received += map(self._decoder.decode, self._frames.feed(data))
        return self._received.pop(0)

    def until(self, kind: type[Any]) -> Any:
        while not isinstance(message := self.receive(), kind):
            pass
        return message

    def goodbye(self) -> int | None:
        self._ours.sendall(GOODBYE)
        return self.join()

    def join(self) -> int | None:
        self._thread.join(30)
        return self.exit_code

    def close(self) -> None:
        self.goodbye()  # also for the channel's reader, which outlives a failed loop
        self._channel.close()
        self._ours.close()


@pytest.fixture
def directory(byte_kind: Kind, tmp_path: Path) -> Path:
    byte_kind.tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


@pytest.fixture
def start(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[LoadRunner], Parent]]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("gc.freeze", lambda: None)  # this process has more to collect at its end
    monkeypatch.setattr(serve.serve, "__defaults__", (0.01,))
    parents: list[Parent] = []

    def make(load: LoadRunner) -> Parent:
        parents.append(Parent(load, directory))
        return parents[-1]

    yield make
    for parent in parents:
        parent.close()


Start = Callable[[LoadRunner], Parent]


def request(name: str, **sampling: Any) -> GenerateRequest:
    params = SamplingParams(**{"max_tokens": 5, "temperature": 0.0, **sampling})
    return GenerateRequest(request_id=name, prompt_token_ids=(1, 2, 3), sampling=params)


def test_loads_reports_serves_and_leaves_when_told(start: Start, byte_kind: Kind) -> None:
    def load(directory: Path, cold: ColdConfig, *, progress: Callable[[str, float], None]) -> FakeRunner:
        assert cold.model.served_name == "m"
        progress("weights", 0.5)
        return FakeRunner(byte_kind.size)

    parent = start(load)
    assert parent.receive() == Progress("weights", 0.5)
    ready = parent.until(Ready)
    assert ready.info.family == "fake"
    parent.send(Submit(request("a")))
    deltas: list[Delta] = []
    while not (deltas and deltas[-1].finish_reason):
        deltas += parent.until(Step).deltas
    assert deltas[-1].finish_reason is FinishReason.LENGTH
    assert sum(len(delta.token_ids) for delta in deltas) == 5
    assert parent.goodbye() == main.OK


def test_idle_it_says_that_it_is_alive(start: Start, byte_kind: Kind) -> None:
    parent = start(lambda *_, **__: FakeRunner(byte_kind.size))
    parent.until(Ready)
    beats = [parent.until(Heartbeat) for _ in range(3)]
    assert beats[-1].stats.steps == 0


def test_a_request_cancelled_before_its_first_step_is_never_computed(start: Start, byte_kind: Kind) -> None:
    runner = FakeRunner(byte_kind.size, slots=1)
    parent = start(lambda *_, **__: runner)
    parent.until(Ready)
    parent.send(Submit(request("long", max_tokens=400)))
    parent.send(Submit(request("gone")))
    parent.send(Cancel("gone"))
    parent.send(Cancel("long"))
    parent.send(Submit(request("last")))
    deltas: list[Delta] = []
    while not (deltas and deltas[-1].finish_reason):
        deltas += parent.until(Step).deltas
    assert {delta.request_id for delta in deltas} <= {"long", "last"}


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (EngineLoadError("The family x is not served."), "The family x is not served."),
        (MemoryError(), "does not fit into this machine's memory"),
        (RuntimeError("secret library text"), "could not load this model"),
    ],
    ids=["refused", "memory", "unexpected"],
)
def test_a_failed_load_is_told_in_a_sentence(
    start: Start, error: Exception, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    def load(*_: Any, **__: Any) -> FakeRunner:
        raise error

    parent = start(load)
    fatal = parent.until(Fatal)
    assert sentence in fatal.message
    assert "secret" not in fatal.message
    assert parent.join() == main.FAILED
    assert any(record.exc_info for record in caplog.records)


def test_an_engine_that_cannot_go_on_ends_its_process(
    start: Start, byte_kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    runner = FakeRunner(byte_kind.size, slots=4)
    runner.fails = lambda _: True
    parent = start(lambda *_, **__: runner)
    parent.until(Ready)
    for number in range(4):
        parent.send(Submit(request(str(number))))
    assert parent.join() == main.FAILED
    assert "cannot go on" in caplog.text


def test_goodbye_before_anything_is_loaded_is_no_error(directory: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(GOODBYE)
        channel: Channel[ToWorker] = Channel(theirs, ToWorker)
        assert main.run(channel, lambda *_, **__: pytest.fail("nothing was to be loaded")) == main.OK
        channel.close()
