from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest

from ferry_runtime import errors
from ferry_runtime.engine.protocol import FinishReason
from ferry_runtime.generation import CacheInfo, CacheOutcome

from .conftest import MakeClient
from .support import ScriptedPipeline, Stack, chat_body, completion_body, delta, error_of, events_of

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
STOP = FinishReason.STOP
ROUTES = [pytest.param(CHAT, chat_body(stream=True), id="chat"),
          pytest.param(COMPLETIONS, completion_body(stream=True), id="completions")]  # fmt: skip


async def chunks_of(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    *chunks, done = events_of(response.text)
    assert done == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]


@pytest.mark.parametrize("n", [1, 3])
async def test_a_chat_stream_adds_up_to_the_answer_in_one_piece(client: httpx.AsyncClient, n: int) -> None:
    body = chat_body(n=n, max_tokens=6, temperature=1, seed=7)
    whole = (await client.post(CHAT, json=body)).json()
    chunks = await chunks_of(client, CHAT, body | {"stream": True})
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    for index in range(n):
        mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert [c["delta"]["role"] for c in mine if "role" in c["delta"]] == ["assistant"]
        assert mine[0]["delta"] == {"role": "assistant", "content": ""}
        assert [c["finish_reason"] for c in mine if c["finish_reason"]] == ["length"]
        assert mine[-1]["finish_reason"] == "length"
        text = "".join(c["delta"].get("content", "") for c in mine)
        assert text == whole["choices"][index]["message"]["content"]


@pytest.mark.parametrize("n", [1, 2])
async def test_a_completion_stream_adds_up_for_every_prompt_and_choice(
    client: httpx.AsyncClient, n: int
) -> None:
    body = completion_body(prompt=["one", "two"], n=n, temperature=1, seed=3, echo=True)
    whole = (await client.post(COMPLETIONS, json=body)).json()
    chunks = await chunks_of(client, COMPLETIONS, body | {"stream": True})
    assert len(whole["choices"]) == 2 * n
    for index, choice in enumerate(whole["choices"]):
        mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert "".join(c["text"] for c in mine) == choice["text"]
        assert [c["finish_reason"] for c in mine if c["finish_reason"]] == [choice["finish_reason"]]
        assert choice["text"].startswith("one" if index < n else "two")


@pytest.mark.parametrize(("path", "body"), ROUTES)
async def test_usage_comes_once_at_the_end_and_only_when_asked_for(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    without = await chunks_of(client, path, body)
    assert all("usage" not in chunk for chunk in without)
    *rest, last = await chunks_of(client, path, body | {"stream_options": {"include_usage": True}})
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 5
    assert all(chunk["usage"] is None and chunk["choices"] for chunk in rest)


@pytest.mark.parametrize(("path", "body"), ROUTES)
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidRequest("no"), 400),
        (errors.Overloaded("full", 3), 503),
        (errors.EngineNotReady("loading"), 503),
        (errors.DeadlineExceeded("late"), 504),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_a_refusal_keeps_its_status_although_a_stream_was_asked_for(
    make_client: MakeClient, path: str, body: dict[str, Any], error: Exception, status: int
) -> None:
    at_submit = ScriptedPipeline(refusal=error)
    at_first_delta = ScriptedPipeline([error])
    for pipeline in (at_submit, at_first_delta):
        client = await make_client(pipeline=pipeline)
        response = await client.post(path, json=body)
        assert response.status_code == status
        assert response.headers["content-type"] == "application/json"
        error_of(response.json())
        unstreamed = await client.post(path, json=body | {"stream": False})
        assert (unstreamed.status_code, unstreamed.json()) == (status, response.json())
        assert all(answer.closed for answer in pipeline.answers)


@pytest.mark.parametrize(("path", "body"), ROUTES)
@pytest.mark.parametrize(
    "failure",
    [
        (errors.EngineDied("the user's prompt"), "engine_died"),
        (errors.RequestFailed("the user's prompt"), "request_failed"),
        (errors.DeadlineExceeded("late"), "deadline_exceeded"),
        (ValueError("the user's prompt"), "internal_error"),
    ],
    ids=lambda failure: failure[1],
)
async def test_past_the_first_byte_an_error_is_one_event_without_done(
    make_client: MakeClient,
    caplog: pytest.LogCaptureFixture,
    path: str,
    body: dict[str, Any],
    failure: tuple[Exception, str],
) -> None:
    error, code = failure
    pipeline = ScriptedPipeline([delta(text="a", token_ids=(7,)), error])
    client = await make_client(pipeline=pipeline)
    with caplog.at_level(logging.DEBUG):
        response = await client.post(path, json=body)
    assert response.status_code == 200
    *chunks, last = events_of(response.text)
    assert error_of(json.loads(last))["code"] == code
    assert chunks
    assert "[DONE]" not in response.text
    assert 'finish_reason":"' not in response.text
    assert "the user's prompt" not in response.text + caplog.text
    assert pipeline.answers[0].closed


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("script", [[], [delta(text="a", token_ids=(7,))]], ids=["nothing", "half"])
async def test_an_answer_that_never_finishes_is_an_error(
    make_client: MakeClient, script: list[Any], stream: bool
) -> None:
    client = await make_client(pipeline=ScriptedPipeline(script))
    response = await client.post(CHAT, json=chat_body(stream=stream))
    if stream and script:
        assert error_of(json.loads(events_of(response.text)[-1]))["code"] == "request_failed"
    else:
        assert response.status_code == 500
        assert error_of(response.json())["code"] == "request_failed"


async def test_one_prompts_failure_ends_the_others(make_client: MakeClient, stacks: list[Stack]) -> None:
    client = await make_client()
    backend = stacks[0].backend
    backend.controls.fails = lambda request: len(request.prompt_token_ids) == 3
    body = completion_body(prompt=["bad", "good prompt"], max_tokens=900, ignore_eos=True)
    response = await client.post(COMPLETIONS, json=body)
    assert response.status_code == 500
    assert len(backend.submitted) == 2
    assert not backend.finished


async def test_a_prompt_that_is_refused_takes_the_others_with_it(
    make_client: MakeClient, stacks: list[Stack]
) -> None:
    client = await make_client()
    body = completion_body(prompt=["fine", "x" * 2000])
    assert (await client.post(COMPLETIONS, json=body)).status_code == 400
    assert not stacks[0].backend.submitted


async def test_held_back_text_makes_no_empty_chunks(make_client: MakeClient) -> None:
    script = [
        delta(token_ids=(7,)),
        delta(token_ids=(8,)),
        delta(text="😀", token_ids=(9,)),
        delta(token_ids=(2,), finish_reason=STOP),
    ]
    for path, body in ((CHAT, chat_body(stream=True)), (COMPLETIONS, completion_body(stream=True))):
        client = await make_client(pipeline=ScriptedPipeline(script))
        chunks = await chunks_of(client, path, body | {"stream_options": {"include_usage": True}})
        contents = [json.dumps(c, ensure_ascii=False) for chunk in chunks for c in chunk["choices"]]
        assert len(contents) == (3 if path == CHAT else 2)
        assert sum("😀" in content for content in contents) == 1
        assert chunks[-1]["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("stream", [False, True])
async def test_where_an_answer_came_from_is_in_the_headers(make_client: MakeClient, stream: bool) -> None:
    cache = CacheInfo(outcome=CacheOutcome.SEMANTIC, similarity=0.91234, entry_id="e1", age_seconds=61.9)
    script = [delta(text="a", token_ids=(7,), finish_reason=STOP)]
    client = await make_client(pipeline=ScriptedPipeline(script, cache=cache))
    headers = (await client.post(CHAT, json=chat_body(stream=stream))).headers
    assert headers["x-ferry-cache"] == "semantic"
    assert headers["x-ferry-cache-similarity"] == "0.9123"
    assert headers["x-ferry-cache-entry"] == "e1"
    assert headers["age"] == "61"


async def test_streams_are_not_to_be_buffered_on_the_way(client: httpx.AsyncClient) -> None:
    headers = (await client.post(CHAT, json=chat_body(stream=True))).headers
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert "content-length" not in headers
