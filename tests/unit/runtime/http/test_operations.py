"""Models, probes, health, metrics, recent requests, tokenizing and the OpenAPI document."""

from __future__ import annotations

import json
import logging
import re
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest

from ferry_runtime.api.app import create_app
from ferry_runtime.api.resolve import check_vocabulary
from ferry_runtime.engine.fake import FakeBackend
from ferry_runtime.engine.protocol import FinishReason
from ferry_runtime.errors import EngineDied
from ferry_runtime.generation import CacheInfo, CacheOutcome

from .conftest import MakeClient
from .support import (
    CONTEXT,
    MODEL,
    ScriptedPipeline,
    Stack,
    build_stack,
    chat_body,
    completion_body,
    delta,
    error_of,
)

CHAT = "/v1/chat/completions"


async def test_the_served_model_is_listed_and_found(client: httpx.AsyncClient) -> None:
    (listed,) = (await client.get("/v1/models")).json()["data"]
    assert listed == (await client.get("/v1/models/smol")).json()
    assert (listed["id"], listed["object"], listed["max_model_len"]) == ("smol", "model", CONTEXT)


async def test_a_models_name_may_hold_slashes_and_dots(make_client: MakeClient) -> None:
    client = await make_client(name="org/smol-1.5")
    assert (await client.get("/v1/models/org/smol-1.5")).json()["id"] == "org/smol-1.5"
    assert (await client.get("/v1/models/org%2Fsmol-1.5")).json()["id"] == "org/smol-1.5"
    assert (await client.post(CHAT, json=chat_body(model="org/smol-1.5"))).status_code == 200


@pytest.mark.parametrize("name", ["nope", "smol/", "a/b/c", "%00", "%ff", "%ED%A0%80", "..%2f..%2fetc"])
async def test_another_model_is_not_found(client: httpx.AsyncClient, name: str) -> None:
    response = await client.get(f"/v1/models/{name}")
    assert response.status_code == 404
    error_of(response.json())


@pytest.mark.parametrize(
    "path", ["/", "/nope", "/v1", "/v1/nope", "//v1/models", "/V1/models", "/v1/models/", "/livez/"]
)
async def test_unknown_paths_are_404_in_openais_shape(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(f"http://ferry{path}")
    assert response.status_code == 404
    error_of(response.json())


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
async def test_wrong_methods_are_405_and_name_the_right_one(client: httpx.AsyncClient, method: str) -> None:
    response = await client.request(method, CHAT)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    if method != "HEAD":
        error_of(response.json())


async def test_before_the_model_is_there_everything_answers_and_nothing_generates() -> None:
    stack = build_stack(backend=FakeBackend())
    transport = httpx.ASGITransport(create_app(stack.services))
    async with httpx.AsyncClient(transport=transport, base_url="http://ferry") as client:
        assert (await client.get("/livez")).status_code == 200
        ready = await client.get("/readyz")
        assert (ready.status_code, error_of(ready.json())["code"]) == (503, "not_ready")
        assert int(ready.headers["retry-after"]) >= 1
        health = (await client.get("/health")).json()
        assert (health["ready"], health["engine"]) == (False, {"state": "loading"})
        assert (await client.get("/v1/models")).json()["data"][0]["max_model_len"] is None
        for path, body in (
            (CHAT, chat_body(stream=True)),
            ("/generate", {"prompt": "hi"}),
            ("/tokenize", {"prompt": "x"}),
        ):
            response = await client.post(path, json=body)
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) >= 1
            error_of(response.json())
        assert (await client.post(CHAT, json=chat_body(model="nope"))).status_code == 404
    await stack.stop()


async def test_probes_follow_the_engine(make_client: MakeClient, stacks: list[Stack]) -> None:
    client = await make_client()
    assert (await client.get("/readyz")).text == "ok"
    assert (await client.head("/livez")).status_code == 200
    stacks[0].backend.die()
    assert (await client.get("/readyz")).status_code == 503
    assert (await client.get("/livez")).status_code == 200
    assert (await client.get("/health")).json()["state"] == "restarting"
    stacks[0].backend.recover()
    assert (await client.get("/readyz")).status_code == 200


async def test_health_says_what_is_served(client: httpx.AsyncClient) -> None:
    health = (await client.get("/health")).json()
    assert health["state"] == "ready"
    assert health["model"] == "smol"
    assert health["generation"] == 7
    assert health["store"] == {"state": "disabled"}
    assert health["engine"]["context_length"] == CONTEXT
    assert health["uptime_seconds"] >= 0


async def test_a_draining_server_says_goodbye_on_every_answer(
    make_client: MakeClient, stacks: list[Stack]
) -> None:
    client = await make_client()
    assert "connection" not in (await client.get("/livez")).headers
    stacks[0].lifecycle.leave()
    answer = await client.post(CHAT, json=chat_body())
    assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    assert (await client.get("/readyz")).status_code == 503


async def test_tokenize_and_detokenize_are_inverse(client: httpx.AsyncClient) -> None:
    tokens = (await client.post("/tokenize", json={"prompt": "hé", "return_token_strs": True})).json()
    assert (tokens["count"], tokens["max_model_len"], len(tokens["token_strs"])) == (3, CONTEXT, 3)
    assert (await client.post("/detokenize", json={"tokens": tokens["tokens"]})).json() == {"prompt": "hé"}
    chat = (await client.post("/tokenize", json={"messages": chat_body()["messages"]})).json()
    answer = (await client.post(CHAT, json=chat_body())).json()
    assert chat["count"] == answer["usage"]["prompt_tokens"]


@pytest.mark.parametrize("body", [{}, {"prompt": "a", "messages": [{"role": "user", "content": "b"}]}])
async def test_tokenize_wants_one_input(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    assert (await client.post("/tokenize", json=body)).status_code == 400


def http_series(text: str) -> set[str]:
    return {line.rpartition(" ")[0] for line in text.splitlines() if line.startswith("ferry_http")}


async def test_random_paths_and_methods_add_no_series(client: httpx.AsyncClient) -> None:
    async def batch(count: int) -> None:
        for number in range(count):
            token = uuid.uuid4().hex
            await client.get(f"/{token}")
            await client.get(f"/v1/models/{token}/{number}")
            await client.request(token[:8].upper(), f"/x/{token}")
            await client.request(token[:8].upper(), "/v1/models")

    await batch(1)
    await client.get("/metrics")
    before = http_series((await client.get("/metrics")).text)
    await batch(125)
    after = http_series((await client.get("/metrics")).text)
    assert after == before
    assert any('route="unmatched"' in line for line in after)
    assert any('route="/v1/models/{model:path}"' in line for line in after)
    assert any('method="other"' in line for line in after)


async def test_open_requests_are_counted_down_whatever_happens(make_client: MakeClient) -> None:
    client = await make_client(pipeline=ScriptedPipeline([delta(text="a"), EngineDied("x")]))
    for stream in (False, True):
        await client.post(CHAT, json=chat_body(stream=stream))
    await client.post(CHAT, content=b"{")
    lines = (await client.get("/metrics")).text.splitlines()
    assert "ferry_http_requests_open 1.0" in lines  # the scrape itself


async def summary(client: httpx.AsyncClient) -> Mapping[str, Any]:
    response = await client.get("/metrics", headers={"accept": "application/json"})
    return dict(response.json())


async def test_the_json_summary_counts_requests_hits_and_latencies(make_client: MakeClient) -> None:
    end = [delta(text="a", token_ids=(7,), finish_reason=FinishReason.STOP)]
    pipeline = ScriptedPipeline(end, cache=CacheInfo(outcome=CacheOutcome.MISS))
    client = await make_client(pipeline=pipeline)
    empty = await summary(client)
    assert (empty["total_requests"], empty["cache_hit_rate"], empty["p95_latency_ms"]) == (0, 0, 0)
    await client.post(CHAT, json=chat_body())
    pipeline.cache = CacheInfo(outcome=CacheOutcome.SEMANTIC)
    await client.post(CHAT, json=chat_body(stream=True))
    await client.post("/generate", json={"prompt": "x"})
    pipeline.script = [EngineDied("x")]
    await client.post(CHAT, json=chat_body())
    full = await summary(client)
    assert full["total_requests"] == 4
    assert full["failed_requests"] == 1
    assert (full["cache_hits"], full["cache_misses"]) == (2, 1)
    assert full["cache_hit_rate"] == pytest.approx(2 / 3)
    assert 0 < full["avg_latency_ms"] <= full["p95_latency_ms"]


async def test_recent_requests_are_newest_first_and_bounded(client: httpx.AsyncClient) -> None:
    for number in range(103):
        await client.post("/v1/completions", json=completion_body(prompt=f"number {number}", max_tokens=1))
    await client.post("/v1/completions", json=completion_body(prompt="x" * 900))
    recent = (await client.get("/recent-requests")).json()["requests"]
    assert len(recent) == 100
    assert len(recent[0]["prompt"]) == 200
    assert recent[1]["prompt"] == "number 102"
    assert (recent[1]["outcome"], recent[1]["output_tokens"], recent[1]["route"]) == (
        "ok",
        1,
        "/v1/completions",
    )
    assert len((await client.get("/recent-requests?limit=2")).json()["requests"]) == 2


@pytest.mark.parametrize("limit", ["0", "-1", "x", "99999", "²", ""])
async def test_a_limit_is_a_whole_number(client: httpx.AsyncClient, limit: str) -> None:
    response = await client.get("/recent-requests", params={"limit": limit})
    assert response.status_code == 400
    assert error_of(response.json())["param"] == "limit"


async def test_logs_name_the_request_and_never_its_prompt(
    make_client: MakeClient, stacks: list[Stack], caplog: pytest.LogCaptureFixture
) -> None:
    client = await make_client()
    stacks[0].backend.controls.fails = lambda request: request.sampling.max_tokens == 9
    with caplog.at_level(logging.DEBUG):
        for fields in (
            {"max_tokens": 3},
            {"max_tokens": 9},
            {"temperature": "sesame"},
            {"sesame": 1, "stream": True},
        ):
            body = chat_body(messages=[{"role": "user", "content": "open sesame"}]) | fields
            response = await client.post(CHAT, json=body)
    ours = [record for record in caplog.records if record.name.startswith("ferry_runtime")]
    assert "open sesame" not in " ".join(json.dumps(record.__dict__, default=str) for record in ours)
    line = next(record for record in reversed(ours) if record.getMessage() == "request")
    assert line.__dict__["request_id"] == response.headers["x-request-id"]
    assert line.__dict__["route"] == CHAT
    assert line.__dict__["status"] == 200


async def test_the_document_describes_every_body_answer_and_error(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/generate", "/tokenize"):
        post = document["paths"][path]["post"]
        reference = post["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        assert reference.rpartition("/")[2] in schemas
        assert "$ref" in post["responses"]["200"]["content"]["application/json"]["schema"]
        assert post["responses"]["400"]["content"]["application/json"]["schema"]["$ref"].endswith("ErrorBody")
    assert "text/event-stream" in document["paths"][CHAT]["post"]["responses"]["200"]["content"]
    for reference in _references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas


async def test_the_documents_page_needs_nothing_from_another_host(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")
    addresses = re.findall(r"(?:src|href|url)[=:] ?[\"']([^\"']*)", page.text)
    assert addresses
    for address in addresses:
        if address == "data:,":
            continue
        found = await client.get(str(page.url.join(address)))
        assert (found.status_code, page.url.join(address).host) == (200, page.url.host), address
        assert len(found.content) > 1000


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        found = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return found + [reference for item in value.values() for reference in _references(item)]
    if isinstance(value, list):
        return [reference for item in value for reference in _references(item)]
    return []


async def test_ids_without_end_are_looked_at_outside_of_the_event_loop(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[threading.Thread] = []

    def check(ids: Sequence[int], vocab_size: int, param: str) -> None:
        looked.append(threading.current_thread())
        check_vocabulary(ids, vocab_size, param)

    monkeypatch.setattr("ferry_runtime.api.routes.tokenize.check_vocabulary", check)
    wrong = await client.post("/detokenize", json={"tokens": [70] * 20_000 + [5000]})
    assert wrong.status_code == 400
    assert "5000" in wrong.json()["error"]["message"]
    assert looked
    assert threading.main_thread() not in looked


async def test_more_prompt_ids_than_the_context_are_counted_not_looked_at(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/completions", json={"model": MODEL, "prompt": [999_999] * 200_000})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("limit", ["x", "1.5", "", "9" * 5000], ids=["word", "fraction", "nothing", "digits"])
async def test_a_wrong_query_parameter_is_said_as_a_sentence(client: httpx.AsyncClient, limit: str) -> None:
    answer = await client.get("/recent-requests", params={"limit": limit})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("limit must be ")
