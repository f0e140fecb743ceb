"""The engine process's main loop: messages in, steps out, a heartbeat while there is nothing to do."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue

from ferry_runtime.engine.wire import Cancel, Heartbeat, Load, Pause, Resume, Submit, ToWorker
from ferry_runtime.engine.worker.engine import Engine
from ferry_runtime.process import Channel

HEARTBEAT_SECONDS = 1.0

# Requests that are sent in one moment arrive one by one. An idle engine waits so long for the rest
# of them: otherwise the first would run alone and the others next to it, in small chunks.
_SETTLE_SECONDS = 0.002

Inbox = SimpleQueue[ToWorker | None]


def serve(
    engine: Engine,
    channel: Channel[ToWorker],
    inbox: Inbox,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> None:
    """Until the parent says goodbye (None in ``inbox``). Sleeps while idle."""
    while _listen(engine, inbox, heartbeat_seconds):
        channel.send(engine.step() if engine.busy else Heartbeat(engine.stats))


def _listen(engine: Engine, inbox: Inbox, idle_seconds: float) -> bool:
    """Hear whoever came or left since the last step; false after a goodbye."""
    idle = not engine.busy
    until = time.monotonic() + (idle_seconds if idle else 0.0)
    settling = False
    while True:
        left = until - time.monotonic()
        try:
            message = inbox.get(timeout=left) if left > 0 else inbox.get_nowait()
        except Empty:
            return True
        if message is None:
            return False
        _apply(engine, message)
        if idle and not settling:
            settling, until = True, time.monotonic() + _SETTLE_SECONDS


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
