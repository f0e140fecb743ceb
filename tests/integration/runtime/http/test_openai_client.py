"""The official client against a real socket: what it sends, understands, retries and closes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from tests.conftest import until
from tests.integration.runtime.http.support import Served, serving
from tests.unit.runtime.http.support import (
    CONTEXT,
    MODEL,
    VOCAB,
    CountingEmbedder,
    ScriptedPipeline,
)

from ferry_runtime.api.auth.keys import parse_key_table
from ferry_runtime.api.auth.policy import KeyPolicy
from ferry_runtime.engine.fake import FakeBackend
from ferry_runtime.errors import DeadlineExceeded, EngineNotReady, Overloaded

MESSAGES: Any = [{"role": "user", "content": "Say hi"}]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(embedder=CountingEmbedder()) as running:
        yield running


@pytest.fixture
async def client(served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(served) as client:
        yield client


def client_of(served: Served, key: str = "EMPTY", **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key=key, timeout=20, **options)


async def test_a_chat_in_one_piece(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=5, n=2, seed=1, logprobs=True, top_logprobs=2
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert all(choice.message.content and choice.finish_reason == "length" for choice in answer.choices)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert [len(item.top_logprobs) for item in logprobs.content or ()] == [2] * 5
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 10
    assert answer._request_id is not None
    assert answer._request_id.startswith("req-")


async def test_a_streamed_chat_adds_up(client: openai.AsyncOpenAI) -> None:
    options: Any = {"model": MODEL, "messages": MESSAGES, "max_tokens": 7, "n": 2, "seed": 3}
    whole = await client.chat.completions.create(**options)
    texts: dict[int, str] = {0: "", 1: ""}
    usage = None
    async for chunk in await client.chat.completions.create(
        **options, stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert [texts[0], texts[1]] == [choice.message.content for choice in whole.choices]
    assert usage == whole.usage


async def test_completions_echo_and_stream(client: openai.AsyncOpenAI) -> None:
    options: Any = {"model": MODEL, "prompt": ["one", "two"], "max_tokens": 4, "temperature": 0}
    whole = await client.completions.create(**options, echo=True, logprobs=1)
    assert [choice.text[:3] for choice in whole.choices] == ["one", "two"]
    assert whole.choices[0].logprobs is not None
    text = ""
    async for chunk in await client.completions.create(**options, stream=True):
        text += "".join(choice.text for choice in chunk.choices if choice.index == 1)
    assert "two" + text == whole.choices[1].text


async def test_models_are_listed_and_retrieved(client: openai.AsyncOpenAI) -> None:
    models = [model.id async for model in client.models.list()]
    assert models == [MODEL, "tiny-embedder"]
    assert (await client.models.retrieve(MODEL)).id == MODEL


async def test_embeddings_come_back_as_numbers(client: openai.AsyncOpenAI) -> None:
    """The client asks for base64 by itself and decodes it."""
    for format_ in (openai.NOT_GIVEN, "float"):
        answer = await client.embeddings.create(
            model="tiny-embedder",
            input=["abc", "de"],
            encoding_format=format_,  # type: ignore[arg-type]
        )
        assert [item.embedding for item in answer.data] == [[3, 0.5, -1], [2, 0.5, -1]]


async def test_leaving_in_mid_stream_frees_the_slot() -> None:
    backend = FakeBackend(slots=1, vocab_size=VOCAB, context_length=CONTEXT)
    backend.controls.step_seconds = 0.005
    async with serving(backend=backend) as served, client_of(served) as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=MESSAGES, max_tokens=900, stream=True, extra_body={"ignore_eos": True}
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        await stream.close()
        await until(lambda: backend.cancelled == backend.submitted)
        answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=3)
        assert answer.choices[0].message.content
        assert len(backend.finished) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_refusals_are_the_clients_own_exceptions(client: openai.AsyncOpenAI, stream: bool) -> None:
    options: Any = {"model": MODEL, "messages": MESSAGES, "stream": stream}
    with pytest.raises(openai.NotFoundError) as missing:
        await client.chat.completions.create(**options | {"model": "nope"})
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as bad:
        await client.chat.completions.create(**options, top_p=2)
    assert bad.value.param == "top_p"
    with pytest.raises(openai.BadRequestError) as long:
        await client.chat.completions.create(**options, max_tokens=5000)
    assert long.value.code == "context_length_exceeded"
    huge: Any = [{"role": "user", "content": "x" * (5 << 20)}]
    with pytest.raises(openai.APIStatusError) as large:
        await client.chat.completions.create(**options | {"messages": huge})
    assert large.value.status_code == 413


async def test_keys_decide() -> None:
    entry = json.dumps({"sha256": hashlib.sha256(b"right").hexdigest()}).encode()
    policy = KeyPolicy(lambda: parse_key_table({"ann": entry}))
    async with serving(auth=policy) as served:
        async with client_of(served, "wrong") as client:
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()
        async with client_of(served, "right") as client:
            assert (await client.models.list()).data
            with pytest.raises(openai.PermissionDeniedError):
                await client.get("/../recent-requests", cast_to=object)


@pytest.mark.parametrize(
    ("refusal", "expected", "asked"),
    [
        (DeadlineExceeded("late"), openai.InternalServerError, 1),
        (EngineNotReady("loading"), openai.InternalServerError, 2),
        (Overloaded("full", 0.5), openai.InternalServerError, 2),
        (Overloaded("your share", 0.5, per_tenant=True), openai.RateLimitError, 2),
    ],
    ids=["deadline", "not ready", "overloaded", "tenant"],
)
async def test_what_may_help_is_retried_and_a_passed_deadline_is_not(
    refusal: Exception, expected: type[openai.APIStatusError], asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("openai._base_client.anyio.sleep", sleep)
    pipeline = ScriptedPipeline([refusal])
    async with serving(pipeline=pipeline) as served, client_of(served, max_retries=1) as client:
        with pytest.raises(expected):
            await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
    assert len(pipeline.requests) == asked
    # The wait is the one that the server's Retry-After asks for.
    assert slept == [1.0 if isinstance(refusal, Overloaded) else 5.0] * (asked - 1)


async def test_an_error_in_mid_stream_is_an_exception(client: openai.AsyncOpenAI, served: Served) -> None:
    served.stack.backend.controls.step_seconds = 0.01
    stream = await client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=900, stream=True, extra_body={"ignore_eos": True}
    )
    await anext(aiter(stream))
    served.stack.backend.die()
    with pytest.raises(openai.APIError, match="restarted"):
        _ = [chunk async for chunk in stream]


@pytest.mark.xdist_group("smollm2")
def test_the_real_model_answers_whole_streamed_and_cancelled(smollm2: Served) -> None:
    question: Any = [{"role": "user", "content": "What is the capital of France?"}]
    options: Any = {"model": MODEL, "messages": question, "max_tokens": 12, "temperature": 0}
    with openai.OpenAI(base_url=f"{smollm2.url}/v1", api_key="EMPTY", timeout=100) as client:
        whole = client.chat.completions.create(**options)
        text = whole.choices[0].message.content or ""
        assert "Paris" in text
        chunks = list(client.chat.completions.create(**options, stream=True))
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
        with client.chat.completions.create(**options | {"max_tokens": 500}, stream=True) as stream:
            next(iter(stream))
        assert client.chat.completions.create(**options).choices[0].message.content == text
