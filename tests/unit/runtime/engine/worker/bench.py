"""An engine around the fake runner, with what it has said; and requests to try on it."""

from collections.abc import Callable
from typing import Any

from ferry_runtime.engine.protocol import Delta, GenerateRequest, SamplingParams
from ferry_runtime.engine.wire import Step
from ferry_runtime.engine.worker.engine import Engine

from .fake_runner import FakeRunner
from .kinds import Kind


class Bench:
    """An engine, its runner, and what it has said."""

    def __init__(self, kind: Kind, **runner: Any) -> None:
        self.kind = kind
        self.runner = FakeRunner(kind.size, **runner)
        self.engine = Engine(self.runner, kind.vocabulary, clock=lambda: self.runner.now)
        self.deltas: dict[str, list[Delta]] = {}
        self.failures: dict[str, str] = {}

    def ask(self, name: str, prompt: str | list[int] = "The ferry", **sampling: Any) -> None:
        ids = self.kind.ids(prompt) if isinstance(prompt, str) else prompt
        params = SamplingParams(**{"max_tokens": 8, "temperature": 0.0, "ignore_eos": True, **sampling})
        self.engine.submit(GenerateRequest(request_id=name, prompt_token_ids=tuple(ids), sampling=params))

    def step(self) -> Step:
        step = self.engine.step()
        for delta in step.deltas:
            self.deltas.setdefault(delta.request_id, []).append(delta)
        self.failures |= {failure.request_id: failure.message for failure in step.failures}
        return step

    def finish(self, limit: int = 2000) -> None:
        for _ in range(limit):
            if not self.engine.busy:
                return
            self.step()
        raise AssertionError("the engine does not come to an end")

    def tokens(self, name: str) -> list[int]:
        return [token_id for delta in self.deltas[name] for token_id in delta.token_ids]

    def text(self, name: str) -> str:
        return "".join(delta.text for delta in self.deltas[name])

    def slot(self, name: str) -> int:
        """The runner's id of a running request: ids are given in order of arrival."""
        return self.engine._sequences[name].id


MakeBench = Callable[..., Bench]


REQUESTS: dict[str, dict[str, Any]] = {
    "greedy": {"prompt": "The ferry leaves"},
    "seeded": {"prompt": "Die Elbe", "temperature": 0.9, "seed": 17, "top_p": 0.9},
    "long": {"prompt": "stop " * 30, "max_tokens": 5},
    "penalised": {"prompt": "and a dog", "repetition_penalty": 1.3, "presence_penalty": 0.4},
    "one": {"prompt": "x", "max_tokens": 1},
    "seeded again": {"prompt": "Die Elbe", "temperature": 1.4, "seed": 3, "top_k": 9, "max_tokens": 20},
}


def alone(make: MakeBench, name: str, **runner: Any) -> list[int]:
    solo = make(**runner)
    solo.ask(name, **REQUESTS[name])
    solo.finish()
    return solo.tokens(name)


def alone_tokens(make: MakeBench, **request: Any) -> list[int]:
    solo = make()
    solo.ask("x", **request)
    solo.finish()
    return solo.tokens("x")
