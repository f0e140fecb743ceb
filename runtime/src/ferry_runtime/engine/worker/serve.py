"""The engine process's main loop: messages in, steps out, a heartbeat while there is nothing to do."""

from __future__ import annotations

from queue import Empty, SimpleQueue

from ferry_runtime.engine.wire import Cancel, Heartbeat, Load, Pause, Resume, Submit, ToWorker
from ferry_runtime.engine.worker.engine import Engine
from ferry_runtime.process import Channel

HEARTBEAT_SECONDS = 1.0


def serve(
    engine: Engine,
    channel: Channel[ToWorker],
    inbox: SimpleQueue[ToWorker | None],
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> None:
    """Until the parent says goodbye (None in ``inbox``). Sleeps while idle."""
    while True:
        try:
            # Whoever came or left during a step is heard before the next one.
            while True:
                message = inbox.get_nowait() if engine.busy else inbox.get(timeout=heartbeat_seconds)
                if message is None:
                    return
                _apply(engine, message)
                if inbox.empty():
                    break
        except Empty:
            pass
        channel.send(engine.step() if engine.busy else Heartbeat(engine.stats))


def _apply(engine: Engine, message: ToWorker) -> None:
    match message:
        case Submit():
            engine.submit(message.request)
        case Cancel():
            engine.cancel(message.request_id)
        case Pause():
            engine.pause(message.request_id)
        case Resume():
            engine.resume(message.request_id)
        case Load():
            raise ValueError("a model is loaded once in a process's life")
