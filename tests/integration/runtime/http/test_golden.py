"""61 requests that a peer server has answered with the same weights and a context of 1024 tokens.

The status, the kind of answer, token counts and finish reasons must be the peer's; texts need not,
because near-ties fall differently in another engine. Where the peer departs from OpenAI's documents
the documents are followed: `DEPARTURES` lists each case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.runtime.http.support import Served
from tests.unit.runtime.http.support import error_of, events_of

# One worker, and so one engine, for all tests of the real model (with pytest --dist loadgroup).
pytestmark = pytest.mark.xdist_group("smollm2")

_DATA = Path(__file__).parents[3] / "golden" / "openai_requests.json"
REQUESTS: list[dict[str, Any]] = json.loads(_DATA.read_text(encoding="utf-8"))

# Name of the request: the status that is answered instead, and why.
DEPARTURES = {
    "model_one": (200, "OpenAI documents GET /v1/models/{model}"),
    "bad_role": (400, "OpenAI's message roles are a closed list"),
    'response_format={"type": "json_object"}': (
        400,
        "this engine cannot guarantee JSON yet, and OpenAI promises that the mode does",
    ),
}
# Fields that OpenAI documents for every answer of a kind
# (https://platform.openai.com/docs/api-reference/chat/object and its neighbours).
FIELDS = {
    "chat.completion": {"id", "object", "created", "model", "choices", "usage", "system_fingerprint"},
    "chat.completion.chunk": {"id", "object", "created", "model", "choices", "system_fingerprint"},
    "text_completion": {"id", "object", "created", "model", "choices", "system_fingerprint"},
    "list": {"object", "data"},
}
CHOICE_FIELDS = {
    "chat.completion": {"index", "message", "logprobs", "finish_reason"},
    "chat.completion.chunk": {"index", "delta", "logprobs", "finish_reason"},
    "text_completion": {"index", "text", "logprobs", "finish_reason"},
}
PREFIXES = {"chat.completion": "chatcmpl-", "chat.completion.chunk": "chatcmpl-", "text_completion": "cmpl-"}


@pytest.fixture(scope="module")
def client(smollm2: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=smollm2.url, timeout=100) as client:
        yield client


def expanded(value: Any) -> Any:
    """Long texts are stored as what they repeat."""
    if isinstance(value, dict) and set(value) == {"repeat", "times"}:
        return value["repeat"] * value["times"]
    if isinstance(value, dict):
        return {name: expanded(item) for name, item in value.items()}
    return [expanded(item) for item in value] if isinstance(value, list) else value


def send(client: httpx.Client, request: dict[str, Any]) -> httpx.Response:
    if "raw" in request:
        return client.request(
            request["method"], request["path"], content=request["raw"], headers=request["headers"]
        )
    return client.request(request["method"], request["path"], json=expanded(request.get("json")))


@pytest.mark.parametrize("request_", REQUESTS, ids=[request["name"] for request in REQUESTS])
def test_a_request_is_answered_like_the_peer_does(client: httpx.Client, request_: dict[str, Any]) -> None:
    peer = request_["peer"]
    status, _ = DEPARTURES.get(request_["name"], (peer["status"], None))
    response = send(client, request_)
    assert response.status_code == status, response.text
    if status >= 400:
        assert response.headers["content-type"] == "application/json"
        error_of(response.json())
        return
    # Where the peer says nothing about the type, its body is empty.
    if peer["content_type"] and request_["name"] not in DEPARTURES:
        assert response.headers["content-type"].partition(";")[0] == peer["content_type"]
    if peer["content_type"] == "text/event-stream":
        check_stream(events_of(response.text), request_)
    else:
        check_answer(response.json(), peer)


def check_answer(body: dict[str, Any], peer: dict[str, Any]) -> None:
    if "object" not in peer:
        assert body.items() >= peer.get("body", {}).items()
        return
    check_fields(body, peer["object"])
    if "prompt_tokens" not in peer:
        return
    usage = body["usage"]
    assert usage["prompt_tokens"] == peer["prompt_tokens"]
    assert usage["completion_tokens"] == peer["completion_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    choices = body["choices"]
    assert [choice["index"] for choice in choices] == list(range(len(choices)))
    assert [choice["finish_reason"] for choice in choices] == peer["finish_reasons"]
    for name, expected in peer.get("logprobs", {}).items():
        assert choices[0]["logprobs"][name] == expected


def check_stream(events: list[str], request: dict[str, Any]) -> None:
    *chunks, done = events
    assert done == "[DONE]"
    parsed = [json.loads(chunk) for chunk in chunks]
    for chunk in parsed:
        check_fields(chunk, request["peer"]["object"])
    assert len({chunk["id"] for chunk in parsed}) == 1
    if request["json"].get("stream_options", {}).get("include_usage"):
        last = parsed.pop()
        assert last["choices"] == []
        assert last["usage"]["completion_tokens"] == request["json"]["max_tokens"]
    assert all(chunk["choices"] for chunk in parsed)
    assert [chunk["choices"][0]["finish_reason"] for chunk in parsed][-1] == "length"
    assert "\ufffd" not in "".join(events)


def check_fields(body: dict[str, Any], kind: str) -> None:
    assert body["object"] == kind
    assert set(body) >= FIELDS[kind]
    assert body.get("id", "").startswith(PREFIXES.get(kind, ""))
    for choice in body.get("choices", ()):
        assert set(choice) >= CHOICE_FIELDS[kind]


def test_every_departure_names_a_request_and_differs_from_the_peer() -> None:
    peers = {request["name"]: request["peer"]["status"] for request in REQUESTS}
    assert len(peers) == len(REQUESTS) == 61
    for name, (status, reason) in DEPARTURES.items():
        assert peers[name] != status
        assert reason


def test_afterwards_the_same_question_gets_the_same_answer(client: httpx.Client) -> None:
    """Nothing that was refused or asked in between has changed the engine."""
    request = next(request for request in REQUESTS if request["name"] == "chat")
    first, second = (send(client, request).json()["choices"] for _ in range(2))
    assert first == second
