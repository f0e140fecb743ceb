from __future__ import annotations

import hashlib
import json
from typing import Any

import httpx
import pytest

from ferry_runtime.api.auth.keys import parse_key_table
from ferry_runtime.api.auth.policy import KeyPolicy

from .conftest import MakeClient
from .support import chat_body, error_of, events_of

CHAT = "/v1/chat/completions"
GREEDY = chat_body(temperature=0)


def key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}-key"}


def entry(name: str, **fields: Any) -> bytes:
    return json.dumps({"sha256": hashlib.sha256(f"{name}-key".encode()).hexdigest()} | fields).encode()


TABLE = parse_key_table(
    {name: entry(name, tenant=name) for name in "ab"} | {"boss": entry("boss", admin=True)}
)
KEYS = KeyPolicy(lambda: TABLE)


async def test_the_same_question_is_answered_from_the_cache_in_every_form(make_client: MakeClient) -> None:
    client = await make_client(cached=True)
    first = await client.post(CHAT, json=GREEDY)
    again = await client.post(CHAT, json=GREEDY)
    assert [answer.headers["x-ferry-cache"] for answer in (first, again)] == ["miss", "exact"]
    assert again.json()["choices"] == first.json()["choices"]
    assert again.json()["usage"] == first.json()["usage"]
    assert again.json()["id"] != first.json()["id"]
    assert int(again.headers["age"]) >= 0
    streamed = await client.post(
        CHAT, json=GREEDY | {"stream": True, "stream_options": {"include_usage": True}}
    )
    assert streamed.headers["x-ferry-cache"] == "exact"
    chunks = [json.loads(event) for event in events_of(streamed.text)[:-1]]
    text = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    assert text == first.json()["choices"][0]["message"]["content"]
    assert chunks[-1]["usage"] == first.json()["usage"]


async def test_a_hit_of_generate_says_so(make_client: MakeClient) -> None:
    client = await make_client(cached=True)
    answers = [
        (await client.post("/generate", json={"prompt": "hi", "max_new_tokens": 5})).json() for _ in range(2)
    ]
    assert [answer["cached"] for answer in answers] == [False, True]
    assert answers[0]["generated_text"] == answers[1]["generated_text"]


@pytest.mark.parametrize(
    "change", [{"user": "u"}, {"metadata": {"a": 1}}, {"priority": 3}, {"timeout": 9}, {"store": True}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
async def test_what_does_not_change_an_answer_is_not_its_identity(
    make_client: MakeClient, change: dict[str, Any]
) -> None:
    client = await make_client(cached=True)
    await client.post(CHAT, json=GREEDY)
    assert (await client.post(CHAT, json=GREEDY | change)).headers["x-ferry-cache"] == "exact"


async def test_a_field_that_nobody_knows_bypasses_the_cache(make_client: MakeClient) -> None:
    client = await make_client(cached=True)
    for _ in range(2):
        answer = await client.post(CHAT, json=GREEDY | {"max_token": 3})
        assert answer.headers["x-ferry-cache"] == "bypass"


async def test_only_if_cached_without_an_entry_is_a_504(make_client: MakeClient) -> None:
    client = await make_client(cached=True)
    response = await client.post(CHAT, json=GREEDY, headers={"cache-control": "only-if-cached"})
    assert response.status_code == 504
    assert error_of(response.json())["code"] == "not_cached"


async def stored(client: httpx.AsyncClient, name: str) -> str:
    await client.post(CHAT, json=GREEDY, headers=key(name))
    answer = await client.post(CHAT, json=GREEDY, headers=key(name))
    assert answer.headers["x-ferry-cache"] == "exact"
    return answer.headers["x-ferry-cache-entry"]


async def test_an_entry_is_seen_and_evicted_by_its_tenant_and_by_admins_only(make_client: MakeClient) -> None:
    client = await make_client(cached=True, auth=KEYS)
    path = f"/cache/entries/{await stored(client, 'a')}"
    for name, status in (("b", 404), ("a", 200), ("boss", 200)):
        assert (await client.get(path, headers=key(name))).status_code == status
    assert (await client.get(path, headers=key("a"))).json()["tenant"] == "a"
    assert (await client.delete(path, headers=key("b"))).status_code == 404
    assert (await client.delete(path, headers=key("a"))).json() == {"cleared": 1}
    assert (await client.get(path, headers=key("boss"))).status_code == 404
    answer = await client.post(CHAT, json=GREEDY, headers=key("a"))
    assert answer.headers["x-ferry-cache"] == "miss"


async def test_clearing_is_an_admins_and_may_be_scoped(make_client: MakeClient) -> None:
    client = await make_client(cached=True, auth=KEYS)
    for name in "ab":
        await stored(client, name)
    for method, path in (("POST", "/clear-cache"), ("DELETE", "/cache"), ("GET", "/cache/stats")):
        assert (await client.request(method, path, headers=key("a"))).status_code == 403
    assert (await client.delete("/cache?tenant=a", headers=key("boss"))).json() == {"cleared": 1}
    assert (await client.get("/cache/stats", headers=key("boss"))).json()["entries"] == 1
    assert (await client.post("/clear-cache", headers=key("boss"))).json() == {"cleared": 1}
    assert (await client.get("/cache/stats", headers=key("boss"))).json()["entries"] == 0


async def test_feedback_evicts_a_wrong_answer(make_client: MakeClient) -> None:
    client = await make_client(cached=True, auth=KEYS)
    name = await stored(client, "a")
    boss = key("boss")
    good = await client.post("/cache/feedback", json={"entry": name, "verdict": "good"}, headers=boss)
    assert good.status_code == 200
    assert (await client.get(f"/cache/entries/{name}", headers=boss)).status_code == 200
    await client.post("/cache/feedback", json={"entry": name, "verdict": "wrong"}, headers=boss)
    assert (await client.get(f"/cache/entries/{name}", headers=boss)).status_code == 404
    for body, status in (
        ({"entry": name, "verdict": "perhaps"}, 400),
        ({"entry": name}, 400),
        ({"entry": name, "verdict": "good"}, 404),
        ({"entry": "x", "verdict": "good"}, 404),
    ):
        response = await client.post("/cache/feedback", json=body, headers=boss)
        assert response.status_code == status
        error_of(response.json())
    content = b'{"entry": "\\ud800", "verdict": "good"}'
    headers = boss | {"content-type": "application/json"}
    assert (await client.post("/cache/feedback", content=content, headers=headers)).status_code == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/cache/stats"), ("POST", "/clear-cache"), ("DELETE", "/cache"), ("GET", "/cache/entries/e")],
)
async def test_before_there_is_a_cache_its_routes_say_so(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    response = await client.request(method, path)
    assert response.status_code == 503
    assert error_of(response.json())["code"] == "cache_not_ready"
    assert "the service is starting" in error_of(response.json())["message"]
    assert int(response.headers["retry-after"]) >= 1


async def test_a_cache_that_waits_for_its_stores_secret_says_for_what(make_client: MakeClient) -> None:
    client = await make_client(store_status=lambda: {"state": "waiting"})
    response = await client.get("/cache/stats")
    assert response.status_code == 503
    assert "the Secret with its store's address is missing" in error_of(response.json())["message"]
