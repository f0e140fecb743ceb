"""Whole kinds of input that have broken other servers, on every route that takes a body."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from ferry_runtime.api.body import BodyLimits
from ferry_runtime.api.schemas.base import Body
from ferry_runtime.api.schemas.chat import ChatBody
from ferry_runtime.api.schemas.completions import (
    CompletionBody,
    DetokenizeBody,
    GenerateBody,
    TokenizeBody,
)

from .conftest import MakeClient
from .support import chat_body, completion_body, error_of

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
GENERATE = "/generate"
JSON = {"content-type": "application/json"}

ROUTES: dict[str, tuple[type[Body], dict[str, Any]]] = {
    CHAT: (ChatBody, chat_body()),
    COMPLETIONS: (CompletionBody, completion_body()),
    GENERATE: (GenerateBody, {"prompt": "hi", "max_new_tokens": 3}),
    "/tokenize": (TokenizeBody, {"prompt": "hi"}),
    "/detokenize": (DetokenizeBody, {"tokens": [70, 71]}),
}
OPTIONAL = [
    (path, name)
    for path, (model, body) in ROUTES.items()
    for name, field in model.model_fields.items()
    if not field.is_required() and not (path == "/tokenize" and name in body)
]


async def still_serves(client: httpx.AsyncClient) -> None:
    assert (await client.post(CHAT, json=chat_body())).status_code == 200


async def refused(
    client: httpx.AsyncClient, path: str, content: bytes | str, headers: dict[str, str] = JSON
) -> Any:
    response = await client.post(path, content=content, headers=headers)
    assert 400 <= response.status_code < 500, response.text
    error = error_of(response.json())
    await still_serves(client)
    return error


@pytest.mark.parametrize(("path", "name"), OPTIONAL, ids=lambda value: value)
async def test_an_explicit_null_is_an_omitted_field(client: httpx.AsyncClient, path: str, name: str) -> None:
    response = await client.post(path, json=ROUTES[path][1] | {name: None})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    "name", ["tools", "tool_choice", "response_format", "functions", "suffix", "unknown"]
)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, GENERATE])
async def test_null_for_a_field_that_is_not_supported_asks_for_nothing(
    client: httpx.AsyncClient, path: str, name: str
) -> None:
    assert (await client.post(path, json=ROUTES[path][1] | {name: None})).status_code == 200


async def test_nulls_inside_nested_objects_are_omissions_too(client: httpx.AsyncClient) -> None:
    message = {"role": "user", "content": "hi", "name": None, "tool_calls": None}
    body = chat_body(messages=[message], stream=True, stream_options={"include_usage": None})
    assert (await client.post(CHAT, json=body)).status_code == 200


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e400", "9" * 4400, "9" * 30], ids=lambda value: value[:9]
)
async def test_numbers_that_json_does_not_have_are_refused_anywhere(
    client: httpx.AsyncClient, path: str, value: str
) -> None:
    for name in ("temperature", "seed", "logit_bias", "metadata", "unknown"):
        body = json.dumps(ROUTES[path][1] | {name: "@"})
        await refused(client, path, body.replace('"@"', value))
        await refused(client, path, body.replace('"@"', '{"deep": [' + value + "]}"))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"messages": [{"role": "user", "content": "\ud800 hi"}]}, id="content"),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "\udfff"}]}]},
            id="content part",
        ),
        pytest.param({"messages": [{"role": "user", "content": "hi", "name": "\ud800"}]}, id="name"),
        pytest.param({"stop": "\ud800"}, id="stop"),
        pytest.param({"stop": ["ok", "\ud800"]}, id="stop list"),
        pytest.param({"user": "\ud800"}, id="user"),
        pytest.param({"model": "\ud800"}, id="model"),
        pytest.param({"metadata": {"\ud800": 1}}, id="metadata key"),
        pytest.param({"logit_bias": {"\ud800": 1}}, id="logit_bias key"),
        pytest.param({"tools": [{"type": "function", "function": {"name": "\ud800"}}]}, id="tool name"),
        pytest.param({"\ud800": 1}, id="field"),
        pytest.param({"unknown": ["\ud800"]}, id="unknown field"),
    ],
)
async def test_lone_surrogates_are_refused_before_any_header(
    client: httpx.AsyncClient, fields: dict[str, Any], stream: bool
) -> None:
    await refused(client, CHAT, json.dumps(chat_body(stream=stream, **fields)))


@pytest.mark.parametrize("path", [COMPLETIONS, GENERATE, "/tokenize"])
async def test_lone_surrogates_in_prompts_are_refused(client: httpx.AsyncClient, path: str) -> None:
    await refused(client, path, json.dumps(ROUTES[path][1] | {"prompt": "\ud83d"}))


async def test_nul_is_a_character_like_any_other(client: httpx.AsyncClient) -> None:
    for path, body in (
        (CHAT, chat_body(messages=[{"role": "user", "content": "a\0b"}], stop="\0", user="\0")),
        (COMPLETIONS, completion_body(prompt="\0")),
        (GENERATE, {"prompt": "\0", "max_new_tokens": 2}),
    ):
        assert (await client.post(path, json=body)).status_code == 200


@pytest.mark.parametrize("token", [1100, 999_999, 2**31, 10**12, -1, True, 1.5, "7", None, [1]], ids=repr)
async def test_token_ids_out_of_the_vocabulary_are_refused_everywhere(
    client: httpx.AsyncClient, token: Any
) -> None:
    for path in (CHAT, COMPLETIONS, GENERATE):
        fields = {"stop_token_ids": [token], "min_tokens": 2}
        error = await refused(client, path, json.dumps(ROUTES[path][1] | fields))
        assert error["param"].startswith("stop_token_ids")
        bias = {"logit_bias": {str(token): 1}}
        if str(token) != "7":
            error = await refused(client, path, json.dumps(ROUTES[path][1] | bias))
            assert error["param"] == "logit_bias"
    for prompt in ([70, token], [[70], [token]]):
        error = await refused(client, COMPLETIONS, json.dumps(completion_body(prompt=prompt)))
        assert error["param"] == "prompt"
    await refused(client, "/detokenize", json.dumps({"tokens": [token]}))


@pytest.mark.parametrize(
    "name",
    ["temperature", "top_p", "top_k", "max_tokens", "n", "seed", "presence_penalty", "timeout", "priority"],
)
@pytest.mark.parametrize("value", [True, False, "1", "x", [], {}, [1]], ids=repr)
async def test_numbers_must_be_numbers(client: httpx.AsyncClient, name: str, value: Any) -> None:
    error = await refused(client, CHAT, json.dumps(chat_body(**{name: value})))
    assert error["param"] == name


@pytest.mark.parametrize("name", ["stream", "logprobs", "ignore_eos", "skip_special_tokens"])
@pytest.mark.parametrize("value", [0, 1, 2.0, "maybe", [], {}], ids=repr)
async def test_flags_must_be_true_or_false(client: httpx.AsyncClient, name: str, value: Any) -> None:
    error = await refused(client, CHAT, json.dumps(chat_body(**{name: value})))
    assert error["param"] == name


async def test_whole_numbers_may_be_written_with_a_point(client: httpx.AsyncClient) -> None:
    response = await client.post(CHAT, content=json.dumps(chat_body()).replace("5", "5.0"), headers=JSON)
    assert response.status_code == 200


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    "content",
    [b"", b"{bad", b"[]", b'"text"', b"null", b"7", b"[" * 100_000, b'{"a":' * 100_000],
    ids=lambda content: content[:6].decode() or "empty",
)
async def test_bodies_that_are_no_json_object_are_refused(
    client: httpx.AsyncClient, path: str, content: bytes
) -> None:
    await refused(client, path, content)


async def test_a_field_named_twice_is_refused(client: httpx.AsyncClient) -> None:
    body = json.dumps(chat_body())
    error = await refused(client, CHAT, body[:-1] + ', "max_tokens": 6}')
    assert "twice" in error["message"]


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonx", "multipart/form-data"],
)
async def test_other_content_types_are_refused(client: httpx.AsyncClient, content_type: str) -> None:
    error = await refused(client, CHAT, json.dumps(chat_body()), {"content-type": content_type})
    assert error["code"] == "unsupported_content_type"


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_the_content_types_parameters_and_case_do_not_matter(
    client: httpx.AsyncClient, content_type: str
) -> None:
    body = json.dumps(chat_body())
    response = await client.post(CHAT, content=body, headers={"content-type": content_type})
    assert response.status_code == 200


async def test_compressed_bodies_are_refused_unread(client: httpx.AsyncClient) -> None:
    bomb = gzip.compress(bytes(10_000_000))
    response = await client.post(CHAT, content=bomb, headers=JSON | {"content-encoding": "gzip"})
    assert response.status_code == 415
    assert error_of(response.json())["code"] == "unsupported_content_encoding"
    await still_serves(client)


async def test_a_body_may_come_in_chunks_without_a_length(client: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for byte in json.dumps(chat_body()).encode():
            yield bytes([byte])

    assert (await client.post(CHAT, content=chunks(), headers=JSON)).status_code == 200


async def test_the_limit_holds_for_declared_and_for_chunked_bodies(make_client: MakeClient) -> None:
    client = await make_client(body=BodyLimits(size=1000))
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100_000:
            sent += 100
            yield b" " * 100

    for content in (b" " * 1001, endless()):
        response = await client.post(CHAT, content=content, headers=JSON)
        assert response.status_code == 413
        assert error_of(response.json())["code"] == "body_too_large"
    assert sent <= 1200
    await still_serves(client)
    assert (
        await client.post(CHAT, content=json.dumps(chat_body()).ljust(1000), headers=JSON)
    ).status_code == 200


async def test_a_body_that_drips_in_is_refused_in_time(make_client: MakeClient) -> None:
    client = await make_client(body=BodyLimits(seconds=0.1))

    async def dripping() -> AsyncIterator[bytes]:
        for byte in json.dumps(chat_body()).encode():
            yield bytes([byte])
            await asyncio.sleep(0.02)

    response = await client.post(CHAT, content=dripping(), headers=JSON)
    assert response.status_code == 408
    assert error_of(response.json())["code"] == "body_timeout"
    await still_serves(client)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [{"role": "user", "content": "x"}] * 5000}, "messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 2000}]},
            "messages[0].content",
        ),
        ({"stop": ["x"] * 10_000}, "stop"),
        ({"stop": ["x" * 5000]}, "stop"),
        ({"stop_token_ids": [7] * 1000}, "stop_token_ids"),
        ({"logit_bias": {str(token): 1 for token in range(1100)}}, "logit_bias"),
        ({"logit_bias": {"7": 1, "07": 2}}, "logit_bias"),
        ({"chat_template_kwargs": {str(number): 1 for number in range(100)}}, "chat_template_kwargs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_counts_are_bounded(client: httpx.AsyncClient, fields: dict[str, Any], param: str) -> None:
    error = await refused(client, CHAT, json.dumps(chat_body(**fields)))
    assert error["param"] == param


async def test_errors_do_not_repeat_what_was_sent(client: httpx.AsyncClient) -> None:
    for fields in (
        {"temperature": "sesame"},
        {"messages": [{"role": "sesame", "content": "sesame"}]},
        {"messages": [{"role": "user", "content": {"sesame": "sesame"}}]},
        {"stop": {"sesame": 1}},
        {"logit_bias": {"sesame": 1}},
        {"response_format": {"type": "sesame"}},
        {"n": ["sesame"]},
    ):
        error = await refused(client, CHAT, json.dumps(chat_body(**fields)))
        assert "sesame" not in json.dumps(error)


async def test_fields_that_nobody_knows_are_accepted_and_named(client: httpx.AsyncClient) -> None:
    response = await client.post(CHAT, json=chat_body(max_token=3, store=True, **{"strange\nname": 1}))
    assert response.status_code == 200
    assert response.headers["x-ferry-ignored-fields"] == "max_token"
    assert "x-ferry-ignored-fields" not in (await client.post(CHAT, json=chat_body())).headers
