"""Hits over HTTP: the same answer as the miss, whole or streamed, whatever was asked for with it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.unit.runtime.http.support import build_stack, chat_body, events_of

from ferry_runtime.api.app import create_app
from ferry_runtime.api.replies import cache_headers
from ferry_runtime.generation import CacheInfo, CacheOutcome

CHAT = "/v1/chat/completions"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    stack = build_stack(cached=True)
    await stack.backend.start()
    transport = httpx.ASGITransport(create_app(stack.services), raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://ferry", timeout=20) as made:
        yield made
    await stack.stop()


def joined(text: str) -> tuple[dict[int, dict[str, Any]], dict[str, Any]]:
    """A stream's choices put together, and its usage."""
    chunks = [json.loads(event) for event in events_of(text)[:-1]]
    choices: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            whole = choices.setdefault(
                choice["index"], {"content": "", "logprobs": [], "finish_reason": None}
            )
            whole["content"] += choice["delta"].get("content") or ""
            whole["logprobs"] += (choice.get("logprobs") or {}).get("content") or []
            assert not (whole["finish_reason"] and choice["finish_reason"])
            whole["finish_reason"] = whole["finish_reason"] or choice["finish_reason"]
    return choices, chunks[-1]["usage"]


@pytest.mark.parametrize(
    "wanted",
    [{}, {"n": 2}, {"logprobs": True, "top_logprobs": 2}, {"n": 3, "logprobs": True, "top_logprobs": 1}],
    ids=["plain", "two choices", "logprobs", "both"],
)
async def test_miss_json_hit_and_streamed_hit_say_the_same(client: httpx.AsyncClient, wanted: dict) -> None:
    body = chat_body(temperature=0) | wanted
    miss = await client.post(CHAT, json=body)
    hit = await client.post(CHAT, json=body)
    streamed = await client.post(
        CHAT, json=body | {"stream": True, "stream_options": {"include_usage": True}}
    )
    assert [answer.headers["x-ferry-cache"] for answer in (miss, hit, streamed)] == ["miss", "exact", "exact"]
    assert hit.json()["choices"] == miss.json()["choices"]
    assert hit.json()["usage"] == miss.json()["usage"]
    assert [answer.headers["cache-status"].split("; ")[1] for answer in (miss, hit, streamed)] == [
        "fwd=miss", "hit", "hit",
    ]  # fmt: skip
    assert miss.headers["x-ferry-cache-entry"] == hit.headers["x-ferry-cache-entry"]
    assert "age" not in miss.headers
    assert hit.headers["x-ferry-cache-entry"] == streamed.headers["x-ferry-cache-entry"]
    assert "age" in streamed.headers
    choices, usage = joined(streamed.text)
    assert usage == miss.json()["usage"]
    for choice in miss.json()["choices"]:
        whole = choices[choice["index"]]
        assert whole["content"] == choice["message"]["content"]
        assert whole["finish_reason"] == choice["finish_reason"]
        assert whole["logprobs"] == ((choice["logprobs"] or {}).get("content") or [])


@pytest.mark.parametrize(
    "other",
    [
        {"user": "somebody"},
        {"metadata": {"a": "b"}},
        {"priority": 3},
        {"timeout": 30},
        {"temperature": 0.0},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_what_does_not_decide_the_answer_does_not_decide_the_hit(
    client: httpx.AsyncClient, other: dict
) -> None:
    body = chat_body(temperature=0) | {"messages": [{"role": "user", "content": "Hello"}]}
    await client.post(CHAT, json=body)
    again = await client.post(CHAT, json=body | other)
    assert again.headers["x-ferry-cache"] == "exact"


async def test_a_stream_that_its_client_left_is_never_served_as_whole(client: httpx.AsyncClient) -> None:
    body = chat_body(temperature=0, max_tokens=200)
    async with client.stream("POST", CHAT, json=body | {"stream": True}) as stream:
        async for _ in stream.aiter_lines():
            break
    whole = await client.post(CHAT, json=body)
    assert whole.json()["usage"]["completion_tokens"] > 10
    again = await client.post(CHAT, json=body)
    assert again.json()["choices"] == whole.json()["choices"]


async def test_an_answer_that_is_not_kept_names_no_entry(client: httpx.AsyncClient) -> None:
    answer = await client.post(CHAT, json=chat_body(temperature=0), headers={"cache-control": "no-store"})
    assert answer.headers["x-ferry-cache"] == "miss"
    assert "x-ferry-cache-entry" not in answer.headers


@pytest.mark.parametrize("outcome", CacheOutcome)
def test_every_outcome_has_a_word_in_the_standard_header(outcome: CacheOutcome) -> None:
    status = cache_headers(CacheInfo(outcome=outcome))["cache-status"]
    served = outcome in (CacheOutcome.EXACT, CacheOutcome.SEMANTIC)
    name, how, *_ = status.split("; ")
    assert name == "ferry"
    assert how == "hit" if served else how.startswith("fwd=")
