"""A whole server as a process of its own: what signals are sent to. Its engine is the double, or,
with the option ``model``, the real one over a prepared directory.

Usage: server.py OPTIONS, a JSON object. Prints its port when it is ready. SIGUSR1 stands for
`ferry drain`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import tokenizers
import uvicorn
from tokenizers import decoders, models, pre_tokenizers

from ferry_api.runtime_config import (
    BatchingConfig,
    ColdConfig,
    HotConfig,
    ModelConfig,
    QueueConfig,
    RuntimeConfig,
)
from ferry_runtime.api.app import create_app
from ferry_runtime.api.auth.policy import OpenPolicy
from ferry_runtime.api.services import Services
from ferry_runtime.engine.backend import ProcessBackend
from ferry_runtime.engine.fake import FakeBackend
from ferry_runtime.engine.protocol import Backend
from ferry_runtime.lifecycle import DrainingServer, Lifecycle
from ferry_runtime.metrics import Metrics
from ferry_runtime.pipeline import ServingPipeline
from ferry_runtime.process import Backoff
from ferry_runtime.text.model import TextModel
from ferry_runtime.text.tokenizer import Tokenizer


def text_model() -> TextModel:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | {text: 3 + i for i, text in enumerate(alphabet)}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return TextModel(
        tokenizer=Tokenizer(backend, {"eos_token": "</s>"}),
        chat_template=None,
        eos_token_ids=(2,),
        vocab_size=1100,
        context_length=8192,
    )


def make_backend(cold: ColdConfig, options: dict[str, Any]) -> Backend:
    if "model" in options:
        backoff = Backoff(first_seconds=0.05)
        return ProcessBackend(Path(options["model"]), cold, env={"OMP_NUM_THREADS": "1"}, backoff=backoff)
    backend = FakeBackend(slots=options.get("slots", 8), vocab_size=1100)
    backend.controls.step_seconds = options.get("step", 0.0)
    return backend


async def main(options: dict[str, Any]) -> None:
    config = RuntimeConfig(
        cold=ColdConfig(
            model=ModelConfig(source="package://tiny", served_name="tiny", context_length=8192),
            batching=BatchingConfig(max_batch_size=options.get("slots", 8), max_wait_seconds=0.0),
        ),
        hot=HotConfig(
            queue=QueueConfig(max_requests=options.get("queue", 256), max_tokens=10**7),
            drain_timeout_seconds=options.get("drain", 30.0),
        ),
    )
    backend = make_backend(config.cold, options)
    metrics = Metrics()
    pipeline = ServingPipeline(
        backend=backend, batching=config.cold.batching, hot=config.hot, metrics=metrics
    )
    lifecycle = Lifecycle(backend, pipeline, lambda: config.hot.drain_timeout_seconds)
    text = text_model()
    services = Services(
        pipeline=pipeline,
        backend=backend,
        text=lambda: text,
        config=lambda: config,
        lifecycle=lifecycle,
        auth=OpenPolicy(),
        registry=metrics.registry,
        metrics=metrics,
    )
    await backend.start()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lifecycle.leave)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        server = DrainingServer(
            uvicorn.Config(create_app(services), lifespan="off", log_config=None), lifecycle
        )
        serving = asyncio.create_task(server.serve([listener]))
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        await serving
    await pipeline.stop()
    await backend.stop()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
