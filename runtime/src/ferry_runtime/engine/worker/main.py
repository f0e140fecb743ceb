"""The engine process from its first message to its last."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

import torch

from ferry_api.runtime_config import ColdConfig
from ferry_runtime.engine.model.contract import Runner
from ferry_runtime.engine.wire import Fatal, Load, Progress, Ready, ToWorker
from ferry_runtime.engine.worker.engine import Engine
from ferry_runtime.engine.worker.serve import serve
from ferry_runtime.engine.worker.threads import compute_threads
from ferry_runtime.engine.worker.vocabulary import Vocabulary
from ferry_runtime.errors import FerryError
from ferry_runtime.process import Channel

logger = logging.getLogger(__name__)

_PROGRESS_SECONDS = 0.1

OK, FAILED = 0, 1


class LoadRunner(Protocol):
    """`ferry_runtime.engine.model.load.load_runner`, or a test's."""

    def __call__(
        self, directory: Path, cold: ColdConfig, *, progress: Callable[[str, float], None]
    ) -> Runner: ...


def run(channel: Channel[ToWorker], load_runner: LoadRunner) -> int:
    """Serve the parent; returns the exit code."""
    order = channel.receive()
    if not isinstance(order, Load):
        return OK  # the parent has changed its mind
    torch.set_num_threads(compute_threads())
    try:
        engine = _load(order, load_runner, channel)
    except FerryError as error:
        logger.exception("the model in %s cannot be served", order.model_dir)
        channel.send(Fatal(str(error)))
        return FAILED
    except (MemoryError, torch.OutOfMemoryError):
        logger.exception("the model in %s does not fit", order.model_dir)
        channel.send(
            Fatal("The model does not fit into this machine's memory. Give it more, or choose a smaller one.")
        )
        return FAILED
    except Exception:
        logger.exception("the model in %s could not be loaded", order.model_dir)
        channel.send(Fatal("The engine could not load this model. The error is in its log."))
        return FAILED
    inbox: SimpleQueue[ToWorker | None] = SimpleQueue()
    channel.read_into(inbox)
    try:
        with torch.inference_mode():
            serve(engine, channel, inbox)
    except OSError:
        return OK  # the parent has gone, and with it every request
    except Exception:
        logger.exception("the engine cannot go on")
        return FAILED
    return OK


def _load(order: Load, load_runner: LoadRunner, channel: Channel[ToWorker]) -> Engine:
    cold = ColdConfig.model_validate_json(order.cold)
    directory = Path(order.model_dir)
    runner = load_runner(directory, cold, progress=_reporter(channel))
    engine = Engine(
        runner,
        Vocabulary.from_directory(directory),
        max_batched_tokens=cold.engine.max_batched_tokens,
    )
    gc.collect()
    gc.freeze()  # what is loaded stays: later collections need not look at it
    channel.send(Ready(runner.info))
    return engine


def _reporter(channel: Channel[ToWorker]) -> Callable[[str, float], None]:
    """Send progress, but not more often than anybody can see."""
    last_stage, last_time = "", 0.0

    def report(stage: str, fraction: float) -> None:
        nonlocal last_stage, last_time
        now = time.monotonic()
        if stage != last_stage or fraction >= 1 or now - last_time >= _PROGRESS_SECONDS:
            last_stage, last_time = stage, now
            channel.send(Progress(stage, fraction))

    return report
