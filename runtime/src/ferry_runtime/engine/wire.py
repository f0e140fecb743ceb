"""What the HTTP process and the engine process say to each other, one struct per frame."""

from __future__ import annotations

import msgspec

from ferry_runtime.engine.protocol import Delta, EngineStats, GenerateRequest, ModelInfo


class Load(msgspec.Struct, frozen=True, tag="load"):
    """The first message of a life. ``cold`` is a ColdConfig as JSON."""

    model_dir: str
    cold: str


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    request: GenerateRequest


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Nothing is answered: no delta of that request follows the step that runs now."""

    request_id: str


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Give up a request's room. It stays open and says nothing until `Resume`."""

    request_id: str


class Resume(msgspec.Struct, frozen=True, tag="resume"):
    """Let a paused request go on, with the tokens that it would have had without the pause."""

    request_id: str


class Progress(msgspec.Struct, frozen=True, tag="progress", omit_defaults=True):
    """Loading goes on. ``fraction`` is of this stage, 0 to 1; None: not known."""

    stage: str
    fraction: float | None = None


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    info: ModelInfo


class Fatal(msgspec.Struct, frozen=True, tag="fatal"):
    """The model cannot be served, and starting again would not help. ``message`` is for users."""

    message: str


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """One request that failed alone. ``message`` is for users."""

    request_id: str
    message: str


class Step(msgspec.Struct, frozen=True, tag="step", omit_defaults=True):
    """What one step brought."""

    stats: EngineStats
    deltas: tuple[Delta, ...] = ()
    failures: tuple[Failure, ...] = ()


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """The loop is alive and has nothing to compute."""

    stats: EngineStats


ToWorker = Load | Submit | Cancel | Pause | Resume
FromWorker = Progress | Ready | Fatal | Step | Heartbeat
