"""Deny by default, checked over every route that the app really has."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from starlette.routing import Route

from ferry_runtime.api.app import create_app
from ferry_runtime.api.auth.access import KEY_ROUTES, OPEN_ROUTES, OWN_ROUTES
from ferry_runtime.api.auth.keys import KeyTable, parse_key_table
from ferry_runtime.api.auth.policy import KeyPolicy

from .conftest import MakeClient
from .support import build_stack, chat_body, error_of

PLAIN = {"authorization": "Bearer plain-key"}
ADMIN = {"authorization": "Bearer admin-key"}


def entry(key: str, **fields: Any) -> bytes:
    return json.dumps({"sha256": hashlib.sha256(key.encode()).hexdigest()} | fields).encode()


TABLE = parse_key_table({"plain": entry("plain-key", tenant="a"), "boss": entry("admin-key", admin=True)})
KEYS = KeyPolicy(lambda: TABLE)


def routes() -> list[tuple[str, str]]:
    app = create_app(build_stack(routers=(extra_router(),)).services)
    assert all(isinstance(route, Route) for route in app.routes)
    return [
        (method, route.path)
        for route in app.routes
        if isinstance(route, Route)
        for method in sorted(route.methods or ())
    ]


def extra_router() -> APIRouter:
    """Routes of another part of the runtime that nobody has put into a list."""
    router = APIRouter()

    @router.post("/cache/forgotten/{key}")
    async def forgotten(key: str) -> dict[str, str]:
        return {"key": key}

    return router


def written(method: str, path: str) -> str:
    return f"{'GET' if method == 'HEAD' else method} {path}"


def concrete(path: str) -> str:
    return (
        path.replace("{model:path}", "smol")
        .replace("{key}", "k")
        .replace("{entry}", "e" * 32)
        .replace("{name}", "page.js")
    )


@pytest.mark.parametrize(("method", "path"), routes(), ids=str)
async def test_every_route_needs_what_the_lists_say(make_client: MakeClient, method: str, path: str) -> None:
    client = await make_client(auth=KEYS, routers=(extra_router(),))
    without = await client.request(method, concrete(path))
    plain = await client.request(method, concrete(path), headers=PLAIN)
    admin = await client.request(method, concrete(path), headers=ADMIN)
    if written(method, path) in OPEN_ROUTES:
        assert without.status_code in {200, 307}
    else:
        assert without.status_code == 401
        assert without.headers["www-authenticate"] == "Bearer"
    if written(method, path) in OPEN_ROUTES | KEY_ROUTES | OWN_ROUTES:
        assert plain.status_code not in {401, 403}
    else:
        assert plain.status_code == 403
    assert admin.status_code not in {401, 403}


async def test_the_written_lists_name_only_routes_that_exist() -> None:
    assert {written(*route) for route in routes()} >= OPEN_ROUTES | KEY_ROUTES | OWN_ROUTES


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "//v1/models"),
        ("GET", "/V1/models"),
        ("GET", "/v1/models/"),
        ("POST", "/v1//chat/completions"),
        ("POST", "/v1/chat/completions/"),
        ("POST", "/./v1/chat/completions"),
        ("POST", "/livez/../v1/chat/completions"),
        ("GET", "/livez/../recent-requests"),
        ("GET", "/livez%2f..%2frecent-requests"),
        ("GET", "/livez/"),
        ("POST", "/livez"),
        ("OPTIONS", "/v1/chat/completions"),
        ("HEAD", "/v1/chat/completions"),
        ("OPTIONS", "/livez"),
        ("GET", "/recent-requests/"),
        ("GET", "/recent-requests?livez"),
        ("GET", "/%72ecent-requests"),
        ("TRACE", "/"),
        ("GET", "/docs/"),
        ("GET", "/docs/oauth2-redirect"),
        ("GET", "/redoc"),
        ("GET", "/dashboard/data/"),
        ("GET", "//dashboard/data"),
        ("GET", "/dashboard/../dashboard/data"),
        ("GET", "/dashboard/assets/../data"),
        ("GET", "/dashboard/assets/%2e%2e%2fdata/x"),
        ("GET", "/dashboard/index.html"),
        ("POST", "/dashboard/load"),
        ("POST", "/clear-cache"),
        ("DELETE", "/cache/entries/x"),
    ],
)
async def test_no_spelling_of_a_path_gets_past_without_a_key(
    make_client: MakeClient, method: str, path: str
) -> None:
    client = await make_client(auth=KEYS)
    request = client.build_request(method, "http://ferry/")
    request.url = request.url.copy_with(raw_path=path.encode())
    response = await client.send(request)
    assert response.status_code == 401
    if method != "HEAD":
        assert error_of(response.json())["code"] == "invalid_api_key"


async def test_an_upgrade_is_a_request_like_any_other(make_client: MakeClient) -> None:
    client = await make_client(auth=KEYS)
    headers = {"connection": "upgrade", "upgrade": "websocket"}
    assert (await client.get("/recent-requests", headers=headers)).status_code == 401


async def test_a_websocket_is_closed_before_it_is_accepted() -> None:
    app = create_app(build_stack(auth=KEYS).services)
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/v1/models", "headers": [], "query_string": b"", "asgi": {}}
    await app(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer wrong",
        "Bearer ",
        "Basic cGxhaW4ta2V5",
        "plain-key",
        "Bearer plain-key, x",
        "Bearer\tplain-key",
    ],
)
async def test_a_wrong_key_is_refused_before_the_body_is_read(
    make_client: MakeClient, authorization: str
) -> None:
    client = await make_client(auth=KEYS)
    headers = {"authorization": authorization, "content-type": "application/json"}
    response = await client.post("/v1/chat/completions", content=b"{not json", headers=headers)
    assert response.status_code == 401
    assert "cGxhaW4ta2V5" not in response.text
    assert "plain-key" not in response.text


async def test_a_key_with_blanks_around_it_still_counts(make_client: MakeClient) -> None:
    client = await make_client(auth=KEYS)
    headers = {"authorization": "  bearer   plain-key  "}
    assert (await client.get("/v1/models", headers=headers)).status_code == 200


async def test_metrics_are_open_as_text_and_an_admins_as_json(make_client: MakeClient) -> None:
    client = await make_client(auth=KEYS)
    accept = {"accept": "application/json"}
    assert (await client.get("/metrics")).status_code == 200
    assert (await client.get("/metrics", headers=accept)).status_code == 401
    assert (await client.get("/metrics", headers=accept | PLAIN)).status_code == 403
    assert (await client.get("/metrics", headers=accept | ADMIN)).status_code == 200


async def test_a_plain_key_gets_404_and_405_like_everybody(make_client: MakeClient) -> None:
    client = await make_client(auth=KEYS)
    assert (await client.get("/v1/nope", headers=PLAIN)).status_code == 404
    assert (await client.get("/v1/chat/completions", headers=PLAIN)).status_code == 405


async def test_without_api_keys_admin_routes_still_need_the_admins(make_client: MakeClient) -> None:
    client = await make_client(auth=KeyPolicy(lambda: TABLE, anonymous=True))
    assert (await client.get("/v1/models")).status_code == 200
    assert (await client.get("/recent-requests")).status_code == 401
    assert (await client.get("/recent-requests", headers=PLAIN)).status_code == 403
    assert (await client.get("/recent-requests", headers=ADMIN)).status_code == 200
    entry = "/cache/entries/" + "e" * 32
    for method in ("GET", "DELETE"):
        assert (await client.request(method, entry)).status_code == 401
        assert (await client.request(method, entry, headers=PLAIN)).status_code == 503  # let in: no cache yet


async def test_an_empty_key_table_is_closed(make_client: MakeClient) -> None:
    client = await make_client(auth=KeyPolicy(KeyTable))
    assert (await client.get("/v1/models", headers={"authorization": "Bearer "})).status_code == 401
    assert (await client.get("/livez")).status_code == 200


async def test_the_key_decides_about_tenant_and_priority(make_client: MakeClient) -> None:
    client = await make_client(auth=KEYS)
    for priority, status in ((1, 200), (0, 200), (-1, 400)):
        response = await client.post("/v1/chat/completions", json=chat_body(priority=priority), headers=PLAIN)
        assert response.status_code == status
    recent = (await client.get("/recent-requests", headers=ADMIN)).json()["requests"]
    assert {request["tenant"] for request in recent} == {"a"}


async def test_every_answer_of_the_guard_has_a_request_id(make_client: MakeClient) -> None:
    client: httpx.AsyncClient = await make_client(auth=KEYS)
    assert (await client.get("/nope")).headers["x-request-id"].startswith("req-")
