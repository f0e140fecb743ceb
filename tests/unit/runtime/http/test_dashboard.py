"""The dashboard's page, its numbers beside /metrics, and its load test."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ferry_runtime.api.app import create_app
from ferry_runtime.api.dashboard.bundle import Bundle

from .conftest import MakeClient
from .support import Stack, build_stack, chat_body, completion_body, error_of

LINES = "application/x-ndjson"


async def data(client: httpx.AsyncClient) -> dict[str, Any]:
    response = await client.get("/dashboard/data")
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    answer: dict[str, Any] = response.json()
    return answer


async def counters(client: httpx.AsyncClient) -> dict[str, float]:
    """Prometheus samples as ``name{label values}``."""
    text = (await client.get("/metrics")).text
    return {
        sample.name + "".join(f"/{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_the_address_without_a_slash_leads_to_the_one_with_it_relatively(
    client: httpx.AsyncClient,
) -> None:
    response = await client.get("/dashboard")
    assert (response.status_code, response.headers["location"]) == (307, "dashboard/")


async def test_the_page_allows_nothing_from_elsewhere_and_nothing_inline(client: httpx.AsyncClient) -> None:
    page = await client.get("/dashboard/")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-cache"
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert not any("unsafe" in sources or "http" in sources for sources in policy.values())


async def test_assets_are_kept_zipped_and_typed(client: httpx.AsyncClient) -> None:
    script = await client.get("/dashboard/assets/page.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["x-content-type-options"] == "nosniff"
    assert "immutable" in script.headers["cache-control"]
    assert script.headers["content-encoding"] == "gzip"
    plain = await client.get("/dashboard/assets/page.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text == script.text
    assert gzip.decompress(gzip.compress(plain.content)) == plain.content
    again = await client.get("/dashboard/assets/page.js", headers={"if-none-match": script.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["assets/nope.js", "assets/..%2findex.html", "nope", "index.html", "assets/"]
)
async def test_an_unknown_file_is_404_and_never_the_page(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(f"/dashboard/{path}")
    assert response.status_code == 404
    error_of(response.json())


async def test_without_a_built_page_the_route_says_so(make_client: MakeClient, tmp_path: Path) -> None:
    client = await make_client(bundle=Bundle(tmp_path))
    response = await client.get("/dashboard/")
    assert response.status_code == 404
    assert "make dashboard" in response.text


@pytest.mark.parametrize("path", ["/team-a/smol/dashboard/data", "/dashboard/data"])
async def test_a_prefix_may_be_stripped_or_kept(make_client: MakeClient, path: str) -> None:
    client = await make_client(path_prefix="/team-a/smol")
    assert (await client.get(path)).status_code == 200
    assert (await client.get("/team-a/smolx/dashboard/data")).status_code == 404
    assert (await client.get("/team-a/smol")).status_code == 404


async def test_refusals_at_the_door_are_counted_apart_from_the_queues(make_client: MakeClient) -> None:
    client = await make_client()
    for body in ({"prompt": 7}, {"prompt": "a", "max_new_tokens": -1}):
        assert (await client.post("/generate", json=body)).status_code == 400
    assert (await client.get("/nowhere")).status_code == 404
    totals = (await data(client))["totals"]
    assert totals["client_errors"] == 3
    assert totals["requests"] == totals["rejected"] == {}


async def test_its_numbers_are_those_of_the_metrics(make_client: MakeClient) -> None:
    client = await make_client(cached=True)
    for prompt in ("a", "b", "a", "a"):
        await client.post("/generate", json={"prompt": prompt, "max_new_tokens": 4})
    await client.post("/v1/chat/completions", json=chat_body(temperature=1.0))
    shown, scraped = await data(client), await counters(client)
    summary = (await client.get("/metrics", headers={"accept": "application/json"})).json()

    totals = shown["totals"]
    assert totals["answers"] == {"exact": 2, "miss": 2, "bypass": 1}
    assert totals["requests"] == {"success": 5}
    assert totals["client_errors"] == 0
    for outcome, count in totals["answers"].items():
        assert scraped[f"ferry_cache_answers_total/{outcome}"] == count
    assert scraped["ferry_cache_saved_tokens_total/exact"] == totals["saved_tokens"]["exact"] == 8
    assert scraped["ferry_generation_tokens_total/anonymous"] == totals["generated_tokens"]
    for name in ("p50", "p95", "p99"):
        assert summary[f"{name}_latency_ms"] == shown["latency"][name]
    assert (summary["avg_latency_ms"], summary["window"]) == (shown["latency"]["mean"], 5)
    assert scraped["ferry_time_to_first_token_seconds_count"] == shown["first_token"]["count"] == 3
    steps = shown["batch"]["steps"]
    assert sum(steps) == scraped["ferry_batch_size_count"] > 0
    assert steps[0] == scraped["ferry_batch_size_bucket/1.0"]
    assert summary["avg_batch_size"] == shown["batch"]["mean"]


async def test_the_timeline_shows_what_the_counters_count(make_client: MakeClient) -> None:
    client = await make_client(cached=True)
    for _ in range(3):
        await client.post("/generate", json={"prompt": "a", "max_new_tokens": 4})

    async def answered() -> dict[str, int]:
        return {kind: sum(counts) for kind, counts in (await data(client))["timeline"]["answers"].items()}

    async with asyncio.timeout(20):
        while sum((await answered()).values()) < 3:  # noqa: ASYNC110 (the bucket has to end)
            await asyncio.sleep(0.1)
    assert await answered() == {"exact": 2, "semantic": 0, "coalesced": 0, "miss": 1, "bypass": 0}


async def test_two_servers_are_told_apart(make_client: MakeClient) -> None:
    one, other = await data(await make_client()), await data(await make_client())
    assert one["replica"]["name"] == other["replica"]["name"]
    assert one["replica"]["id"] != other["replica"]["id"]


async def test_recent_prompts_are_shortened_and_name_their_entry(make_client: MakeClient) -> None:
    client = await make_client(cached=True)
    answer = await client.post("/generate", json={"prompt": "word " * 60, "max_new_tokens": 2})
    (recent,) = (await data(client))["recent"]
    assert len(recent["prompt"]) == 100
    assert recent["entry"] == answer.headers["x-ferry-cache-entry"]


async def test_before_the_model_is_there_the_data_say_so() -> None:
    stack = build_stack()
    transport = httpx.ASGITransport(create_app(stack.services))
    async with httpx.AsyncClient(transport=transport, base_url="http://ferry") as client:
        shown = await data(client)
    assert (shown["service"]["state"], shown["service"]["ready"]) == ("starting", False)
    assert shown["live"]["slots"] == 8
    await stack.stop()


async def load(client: httpx.AsyncClient, **body: Any) -> list[dict[str, Any]]:
    response = await client.post("/dashboard/load", json=body)
    assert response.headers["content-type"] == LINES
    return [json.loads(line) for line in response.text.splitlines()]


@pytest.mark.parametrize(
    ("pattern", "expected"), [("unique", {"miss"}), ("cached", {"exact"}), ("repeated", {"exact", "miss"})]
)
async def test_a_load_test_asks_as_often_as_it_says(
    make_client: MakeClient, pattern: str, expected: set[str]
) -> None:
    client = await make_client(cached=True)
    *_, last = await load(client, requests=40, concurrency=1, pattern=pattern, max_new_tokens=3, seed=1)
    assert (last["over"], last["stopped"], last["asked"], last["ended"]) == (True, False, 40, 40)
    assert set(last["results"]) == expected
    assert last["all"]["count"] == last["hits"]["count"] + last["generated"]["count"] == 40
    primed = 5 if pattern == "cached" else 0
    assert sum((await data(client))["totals"]["answers"].values()) == 40 + primed


async def test_a_load_test_fills_the_batch(make_client: MakeClient, stacks: list[Stack]) -> None:
    client = await make_client()
    stacks[0].backend.controls.step_seconds = 0.002
    lines = await load(client, requests=32, concurrency=8, pattern="unique", max_new_tokens=8)
    assert sum(len(line["samples"]) for line in lines) == 32
    assert (await data(client))["batch"]["mean"] > 2


async def test_refusals_of_a_load_test_are_counted_by_their_code(
    make_client: MakeClient, stacks: list[Stack]
) -> None:
    client = await make_client()
    stacks[0].backend.die()
    *_, last = await load(client, requests=3, concurrency=1)
    assert last["results"] == {"engine_not_ready": 3}


@pytest.mark.parametrize(
    "body",
    [{"requests": 501}, {"requests": 0}, {"concurrency": 65}, {"max_new_tokens": 129}, {"pattern": "all"}],
    ids=str,
)
async def test_a_load_test_is_bounded(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    response = await client.post("/dashboard/load", json=body)
    assert response.status_code == 400
    assert error_of(response.json())["param"] == next(iter(body))


async def test_one_load_test_at_a_time(make_client: MakeClient, stacks: list[Stack]) -> None:
    client = await make_client()
    controls = stacks[0].backend.controls
    controls.hanging = True
    first = asyncio.create_task(load(client, requests=1))
    while not stacks[0].backend.submitted:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    refused = await client.post("/dashboard/load", json={"requests": 1})
    assert (refused.status_code, error_of(refused.json())["code"]) == (409, "load_test_running")
    controls.hanging = False
    assert (await first)[-1]["ended"] == 1
    assert (await load(client, requests=1))[-1]["over"]


async def test_several_prompts_of_a_body_are_several_answers(client: httpx.AsyncClient) -> None:
    await client.post("/v1/completions", json=completion_body(prompt=["a", "b"]))
    assert (await data(client))["totals"]["answers"] == {"bypass": 2}
