from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from ferry_api.runtime_config import GenerationConfig, HotConfig
from ferry_runtime.engine.protocol import FinishReason
from ferry_runtime.generation import GenerationRequest

from .conftest import MakeClient
from .support import CONTEXT, ScriptedPipeline, chat_body, delta, error_of, events_of

CHAT = "/v1/chat/completions"


async def request_made(make_client: MakeClient, body: dict[str, Any], **options: Any) -> GenerationRequest:
    """What reaches the pipeline."""
    pipeline = ScriptedPipeline([delta(text="ok", token_ids=(7,), finish_reason=FinishReason.STOP)])
    client = await make_client(pipeline=pipeline, **options)
    response = await client.post(CHAT, json=body, headers=options.get("headers"))
    assert response.status_code == 200, response.text
    return pipeline.requests[0]


async def test_an_answer_has_openais_fields(client: httpx.AsyncClient) -> None:
    body = (await client.post(CHAT, json=chat_body(temperature=0))).json()
    assert body["id"].startswith("chatcmpl-")
    assert body["object"] == "chat.completion"
    assert body["model"] == "smol"
    assert isinstance(body["created"], int)
    (choice,) = body["choices"]
    assert choice["index"] == 0
    assert choice["finish_reason"] == "length"
    assert choice["logprobs"] is None
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"]
    assert body["usage"]["completion_tokens"] == 5
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + 5


async def test_the_prompt_is_the_rendered_conversation(make_client: MakeClient) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Say"}, {"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "again", "name": "ann"},
    ]
    request = await request_made(make_client, chat_body(messages=messages))
    assert request.prompt_text == (
        "<s>system\nBe brief.</s>\n<s>user\nSay\nhi</s>\n<s>assistant\nhi</s>\n"
        "<s>user\nagain</s>\n<s>assistant\n"
    )
    assert request.user_text == "again"
    # Special tokens are one token each; the rest is a token a byte.
    assert len(request.prompt_token_ids) == len(request.prompt_text) - 5 * 2 - 4 * 3


async def test_the_cache_learns_what_besides_the_last_user_text_decides(make_client: MakeClient) -> None:
    def asking(text: str, system: str) -> dict[str, Any]:
        return chat_body(messages=[{"role": "system", "content": system}, {"role": "user", "content": text}])

    first = await request_made(make_client, asking("one", "a"))
    same = await request_made(make_client, asking("two", "a"))
    other = await request_made(make_client, asking("one", "b"))
    assert first.context == same.context != other.context
    assert "one" not in first.context


async def test_an_answer_to_continue_has_no_user_text(make_client: MakeClient) -> None:
    messages = [{"role": "user", "content": "Count"}, {"role": "assistant", "content": "1, 2,"}]
    body = chat_body(messages=messages, add_generation_prompt=False, continue_final_message=True)
    request = await request_made(make_client, body)
    assert request.prompt_text.endswith("1, 2,")
    assert request.user_text is None
    assert "1, 2," in request.context


async def test_defaults_come_from_the_hot_configuration(make_client: MakeClient) -> None:
    hot = HotConfig(generation=GenerationConfig(max_tokens=7, temperature=0.3))
    request = await request_made(make_client, chat_body(max_tokens=None), hot=hot)
    assert (request.sampling.max_tokens, request.sampling.temperature) == (7, 0.3)
    assert request.temperature_omitted


async def test_omitted_max_tokens_fills_the_context(make_client: MakeClient) -> None:
    request = await request_made(make_client, chat_body(max_tokens=None))
    assert request.sampling.max_tokens == CONTEXT - len(request.prompt_token_ids)


async def test_max_completion_tokens_wins(make_client: MakeClient) -> None:
    request = await request_made(make_client, chat_body(max_tokens=5, max_completion_tokens=3))
    assert request.sampling.max_tokens == 3


async def test_ids_are_minted_and_a_clients_id_is_not_looked_at(client: httpx.AsyncClient) -> None:
    headers = {"x-request-id": "mine"}
    answers = [await client.post(CHAT, json=chat_body(), headers=headers) for _ in range(2)]
    ids = {answer.headers["x-request-id"] for answer in answers} | {answer.json()["id"] for answer in answers}
    assert len(ids) == 4
    assert "mine" not in " ".join(ids)


async def test_request_directives_reach_the_cache(make_client: MakeClient) -> None:
    pipeline = ScriptedPipeline([delta(text="ok", token_ids=(7,), finish_reason=FinishReason.STOP)])
    client = await make_client(pipeline=pipeline)
    headers = {"cache-control": "No-Cache, max-age=60", "x-ferry-cache-threshold": "0.9"}
    await client.post(CHAT, json=chat_body(odd_field=1), headers=headers)
    (request,) = pipeline.requests
    assert request.cache_control == {"no-cache", "max-age=60"}
    assert request.cache_threshold == 0.9
    assert request.unknown_fields == {"odd_field"}


@pytest.mark.parametrize("value", ["high", "nan", "-0.1", "1.5", ""])
async def test_a_threshold_is_a_number_between_zero_and_one(client: httpx.AsyncClient, value: str) -> None:
    response = await client.post(CHAT, json=chat_body(), headers={"x-ferry-cache-threshold": value})
    assert response.status_code == 400


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"role": "alien", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages[0]"),
        ({"messages": [{"role": "assistant", "content": "x", "tool_calls": [{}]}]}, "messages[0]"),
        ({"model": None}, "model"),
        ({"model": 7}, "model"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.1}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"frequency_penalty": -2.5}, "frequency_penalty"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 100_000}, "max_tokens"),
        ({"max_completion_tokens": 100_000}, "max_completion_tokens"),
        ({"stop": [""]}, "stop"),
        ({"stop": [7]}, "stop"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": "maybe"}}, "stream_options.include_usage"),
        ({"timeout": 0}, "timeout"),
        ({"min_tokens": 10}, "min_tokens"),
        ({"seed": 2**63}, "seed"),
        ({"user": 5}, "user"),
        ({"metadata": []}, "metadata"),
        ({"chat_template_kwargs": {"a": []}}, "chat_template_kwargs.a"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else "",
)
async def test_what_is_wrong_is_said_with_the_fields_name(
    client: httpx.AsyncClient, fields: dict[str, Any], param: str
) -> None:
    for stream in (False, True):
        body = chat_body() | {"stream": stream} | fields
        if "stream_options" in fields and not stream:
            body = chat_body() | fields
        elif "stream_options" in fields and "stream" not in fields:
            continue
        response = await client.post(CHAT, json=body)
        assert response.status_code == 400, response.text
        error = error_of(response.json())
        assert error["param"] == param
        assert error["message"].startswith(param.partition("[")[0]) or "context" in error["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "weird"}},
        {"response_format": {"type": "json_schema", "json_schema": {}}},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"tool_choice": "auto"},
        {"functions": [{}]},
        {"audio": {"voice": "x"}},
        {"modalities": ["text", "audio"]},
        {"guided_json": {"type": "object"}},
        {"structured_outputs": {"regex": "a"}},
        {"use_beam_search": True},
        {"prompt_logprobs": 0},
        {"best_of": 2},
        {"echo": True},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_what_the_engine_cannot_do_is_refused_in_so_many_words(
    client: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    response = await client.post(CHAT, json=chat_body(**fields))
    assert response.status_code == 400
    error = error_of(response.json())
    assert "not supported by this engine" in error["message"]
    assert error["param"] == next(iter(fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "text"}},
        {"tools": []},
        {"tool_choice": "none"},
        {"modalities": ["text"]},
        {"use_beam_search": False},
        {"store": True, "service_tier": "auto", "parallel_tool_calls": True},
        {"stream": "no"},
        {"n": 3, "temperature": 0},
        {"top_k": 0},
        {"seed": -1},
        {"priority": 1},
        {"ignore_eos": True},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_what_asks_for_nothing_special_is_accepted(
    client: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    assert (await client.post(CHAT, json=chat_body(**fields))).status_code == 200


async def test_an_unknown_model_is_not_found(client: httpx.AsyncClient) -> None:
    for stream in (False, True):
        response = await client.post(CHAT, json=chat_body(model="nope", stream=stream))
        assert response.status_code == 404
        error = error_of(response.json())
        assert (error["code"], error["param"]) == ("model_not_found", "model")


async def test_a_prompt_beyond_the_context_says_how_long_it_is(client: httpx.AsyncClient) -> None:
    messages = [{"role": "user", "content": "x" * 2000}]
    for stream in (False, True):
        response = await client.post(CHAT, json=chat_body(messages=messages, stream=stream))
        assert response.status_code == 400
        error = error_of(response.json())
        assert error["code"] == "context_length_exceeded"
        assert "1024" in error["message"]
        assert "2019" in error["message"]


async def test_an_endless_prompt_is_refused_without_being_encoded(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await make_client()
    monkeypatch.setattr("ferry_runtime.text.tokenizer.Tokenizer.encode", None)
    text = "x" * 1_000_000
    for path, body in (
        (CHAT, chat_body(messages=[{"role": "user", "content": text}])),
        ("/v1/completions", {"model": "smol", "prompt": text}),
        ("/generate", {"prompt": text}),
    ):
        response = await client.post(path, json=body)
        assert response.status_code == 400
        assert error_of(response.json())["code"] == "context_length_exceeded"


async def test_a_base_model_without_template_points_to_completions(make_client: MakeClient) -> None:
    client = await make_client(chat=False)
    response = await client.post(CHAT, json=chat_body())
    assert response.status_code == 400
    assert "/v1/completions" in error_of(response.json())["message"]


async def test_usage_of_several_choices_counts_the_prompt_once(client: httpx.AsyncClient) -> None:
    one = (await client.post(CHAT, json=chat_body(max_tokens=8, seed=1))).json()
    body = chat_body(n=3, max_tokens=8, seed=1, temperature=1, ignore_eos=True)
    three = (await client.post(CHAT, json=body)).json()
    assert [choice["index"] for choice in three["choices"]] == [0, 1, 2]
    assert three["usage"]["prompt_tokens"] == one["usage"]["prompt_tokens"]
    assert three["usage"]["completion_tokens"] == 24
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    streamed = events_of((await client.post(CHAT, json=body)).text)
    assert json.loads(streamed[-2])["usage"] == three["usage"]
