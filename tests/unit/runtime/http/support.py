"""A whole server without a model: real pipeline and lifecycle over the engine's double."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from ferry_api.runtime_config import (
    BatchingConfig,
    CacheConfig,
    ColdConfig,
    HotConfig,
    ModelConfig,
    RuntimeConfig,
)
from ferry_runtime.api.auth.policy import AuthPolicy, OpenPolicy
from ferry_runtime.api.dashboard.bundle import Bundle
from ferry_runtime.api.services import Services
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.semantic.tier import Embedder, SemanticTier
from ferry_runtime.cache.setup import Cache, build_cache
from ferry_runtime.engine.fake import FakeBackend
from ferry_runtime.engine.protocol import Delta
from ferry_runtime.generation import CacheInfo, ChoiceDelta, GenerationRequest, Pipeline
from ferry_runtime.lifecycle import Lifecycle
from ferry_runtime.metrics import Metrics
from ferry_runtime.pipeline import ServingPipeline
from ferry_runtime.text.chat import ChatTemplate
from ferry_runtime.text.model import TextModel
from ferry_runtime.text.tokenizer import Tokenizer

MODEL = "smol"
# Stands in for the dashboard's page, which need not have been built.
PAGE_FOLDER = Path(__file__).parent / "page"
VOCAB = 1100  # more rows than the tokenizer has tokens, as in padded models
CONTEXT = 1024
TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def byte_tokenizer() -> Tokenizer:
    """One token for a byte, so that a text's tokens can be counted by looking at it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | {text: 3 + i for i, text in enumerate(alphabet)}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    return Tokenizer(backend, {"bos_token": "<s>", "eos_token": "</s>"})


def text_model(*, chat: bool = True) -> TextModel:
    template = ChatTemplate({"default": TEMPLATE}, {}) if chat else None
    return TextModel(
        tokenizer=byte_tokenizer(),
        chat_template=template,
        eos_token_ids=(2,),
        vocab_size=VOCAB,
        context_length=CONTEXT,
    )


def config(hot: HotConfig | None = None, *, name: str = MODEL) -> RuntimeConfig:
    cold = ColdConfig(
        model=ModelConfig(source="package://tiny", served_name=name),
        batching=BatchingConfig(max_wait_seconds=0.0),
    )
    return RuntimeConfig(generation=7, cold=cold, hot=hot or HotConfig())


@dataclass
class Stack:
    """``backend`` is the double with its controls, unless told otherwise; everything else is real."""

    backend: Any
    metrics: Metrics
    pipeline: ServingPipeline
    lifecycle: Lifecycle
    services: Services
    cache: Cache | None = None

    async def start(self) -> None:
        await self.backend.start()
        if self.cache is not None:
            await self.cache.layer.start()
            if isinstance(self.cache.layer.semantic, SemanticTier):
                await self.cache.layer.semantic.ready()

    async def stop(self) -> None:
        if self.cache is not None:
            await self.cache.layer.stop()
        await self.pipeline.stop()
        await self.backend.stop()


def build_stack(
    *,
    hot: HotConfig | None = None,
    name: str = MODEL,
    auth: AuthPolicy | None = None,
    chat: bool = True,
    backend: Any = None,
    text: TextModel | None = None,
    pipeline: Pipeline | None = None,
    cached: bool = False,
    tracing: Any = None,
    cache_embedder: Embedder | None = None,
    **overrides: Any,
) -> Stack:
    """``backend`` may be a function that makes one. ``cached`` puts the cache in, without a store and with
    ``cache_embedder``. ``overrides`` are fields of `Services`."""
    settings = config(hot, name=name)
    metrics = Metrics()
    made = backend() if callable(backend) else backend
    engine = made or FakeBackend(vocab_size=VOCAB, context_length=CONTEXT, on_stats=metrics.stepped)
    cache = _cache(settings.hot.cache, cache_embedder, metrics) if cached else None
    serving = ServingPipeline(
        backend=engine,
        batching=settings.cold.batching,
        hot=settings.hot,
        metrics=metrics,
        cache=cache.layer if cache else None,
        tracing=tracing,
    )
    lifecycle = Lifecycle(engine, serving, lambda: 1.0)
    model = text or text_model(chat=chat)
    services = Services(
        pipeline=pipeline or serving,
        backend=engine,
        text=lambda: model,
        config=lambda: settings,
        lifecycle=lifecycle,
        auth=auth or OpenPolicy(),
        registry=metrics.registry,
        metrics=metrics,
        bundle=Bundle(PAGE_FOLDER),
        batch_size=lambda: metrics.mean_batch_size,
        cache=lambda: cache.control if cache else None,
        tracing=tracing,
    )
    return Stack(engine, metrics, serving, lifecycle, replace(services, **overrides), cache)


def _cache(config: CacheConfig, embedder: Embedder | None, metrics: Metrics) -> Cache:
    return build_cache(
        namespace="tests",
        config=lambda: config.model_copy(update={"enabled": True}),
        model=lambda: ServedModel(name=MODEL, weights="w"),
        queue_timeout=lambda: 60.0,
        registry=metrics.registry,
        embedder=embedder,
    )


@dataclass
class ScriptedAnswer:
    """Plays deltas and raises errors, in order."""

    script: Sequence[ChoiceDelta | Exception]
    cache: CacheInfo = field(default_factory=CacheInfo)
    closed: bool = False

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        for item in self.script:
            if isinstance(item, Exception):
                raise item
            yield item

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class ScriptedPipeline:
    """Answers every request alike, or refuses it."""

    script: Sequence[ChoiceDelta | Exception] = ()
    refusal: Exception | None = None
    cache: CacheInfo = field(default_factory=CacheInfo)
    requests: list[GenerationRequest] = field(default_factory=list)
    answers: list[ScriptedAnswer] = field(default_factory=list)

    async def submit(self, request: GenerationRequest) -> ScriptedAnswer:
        if self.refusal is not None:
            raise self.refusal
        self.requests.append(request)
        self.answers.append(ScriptedAnswer(self.script, self.cache))
        return self.answers[-1]


class CountingEmbedder:
    """The vector says how long the text is."""

    name = "tiny-embedder"
    dimensions = 3

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def embed(self, texts: Sequence[str]) -> Sequence[tuple[Sequence[float], int]]:
        if self._error is not None:
            raise self._error
        return [((len(text), 0.5, -1.0), len(text)) for text in texts]


def delta(index: int = 0, **fields: Any) -> ChoiceDelta:
    return ChoiceDelta(index, Delta(request_id="r", **fields))


def chat_body(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": "Say hi"}], "max_tokens": 5} | fields


def completion_body(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": "The sky is", "max_tokens": 5} | fields


def error_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The error object, after checking that it is OpenAI's shape and nothing else."""
    assert set(body) == {"error"}
    error: Mapping[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    return error


def events_of(text: str) -> list[str]:
    """The data of every server-sent event."""
    parts = text.split("\n\n")
    assert parts.pop() == ""
    assert all(part.startswith("data: ") for part in parts)
    return [part.removeprefix("data: ") for part in parts]
