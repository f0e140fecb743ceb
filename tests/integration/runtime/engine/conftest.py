"""A tiny random Llama with a real tokenizer, and backends that end with their test."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from ferry_api.runtime_config import BatchingConfig, ColdConfig, DType, EngineConfig, ModelConfig, Numerics
from ferry_runtime.engine.backend import ProcessBackend
from ferry_runtime.engine.protocol import Delta, DeltaStream, EngineStats, GenerateRequest, SamplingParams
from ferry_runtime.engine.worker.vocabulary import byte_level_alphabet
from ferry_runtime.process import Backoff

CONTEXT = 4096  # so long that a request can outlast whatever a test does meanwhile
MakeBackend = Callable[..., ProcessBackend]


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared model directory: ids 0 to 255 are the bytes, and two special tokens follow."""
    directory = tmp_path_factory.mktemp("tiny-llama")
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=byte_level_alphabet(), merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>", "<|start|>"])
    tokenizer.save(str(directory / "tokenizer.json"))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=320,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=257,
        eos_token_id=256,
        initializer_range=0.4,  # sharp enough that tokens differ from step to step
    )
    LlamaForCausalLM(config).save_pretrained(directory)
    return directory


def backend_for(
    directory: Path,
    *,
    slots: int = 4,
    numerics: Numerics = Numerics.FAST,
    dtype: DType = DType.AUTO,
    **options: Any,
) -> ProcessBackend:
    cold = ColdConfig(
        model=ModelConfig(
            source=f"file://{directory}", served_name="model", context_length=CONTEXT, dtype=dtype
        ),
        engine=EngineConfig(numerics=numerics),
        batching=BatchingConfig(max_batch_size=slots),
    )
    options.setdefault("backoff", Backoff(first_seconds=0.05))
    return ProcessBackend(directory, cold, env={"OMP_NUM_THREADS": "1"}, **options)


@pytest.fixture
async def make_backend(tiny_llama: Path) -> AsyncIterator[MakeBackend]:
    """Backends are stopped, and so their processes ended, however the test ends."""
    made: list[ProcessBackend] = []

    def make(directory: Path = tiny_llama, **options: Any) -> ProcessBackend:
        backend = backend_for(directory, **options)
        made.append(backend)
        return backend

    yield make
    for backend in made:
        await backend.stop()


class Steps:
    """Collects the statistics that are told."""

    def __init__(self) -> None:
        self.all: list[EngineStats] = []

    def __call__(self, stats: EngineStats) -> None:
        self.all.append(stats)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ask(name: str, prompt: str = "The ferry leaves", **sampling: Any) -> GenerateRequest:
    """Token ids are bytes: see `tiny_llama`."""
    params = SamplingParams(**{"max_tokens": 20, "temperature": 0.0, "ignore_eos": True, **sampling})
    return GenerateRequest(request_id=name, prompt_token_ids=tuple(prompt.encode()), sampling=params)


async def answer(backend: ProcessBackend, request: GenerateRequest) -> list[Delta]:
    return [delta async for delta in backend.generate(request)]


def tokens(deltas: list[Delta]) -> list[int]:
    return [token_id for delta in deltas for token_id in delta.token_ids]


async def rest_of(stream: DeltaStream) -> list[Delta]:
    return [delta async for delta in stream]
