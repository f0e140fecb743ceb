from __future__ import annotations

import array
import base64
import json
from typing import Any

import pytest

from ferry_runtime.errors import EmbedderUnavailable, InvalidRequest

from .conftest import MakeClient
from .support import CountingEmbedder, error_of

EMBEDDINGS = "/v1/embeddings"


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "tiny-embedder", "input": "abc"} | fields


async def test_vectors_come_in_order_with_usage(make_client: MakeClient) -> None:
    client = await make_client(embedder=CountingEmbedder())
    answer = (await client.post(EMBEDDINGS, json=body(input=["abc", "de"]))).json()
    assert answer["object"] == "list"
    assert answer["model"] == "tiny-embedder"
    assert answer["data"] == [
        {"object": "embedding", "index": 0, "embedding": [3, 0.5, -1.0]},
        {"object": "embedding", "index": 1, "embedding": [2, 0.5, -1.0]},
    ]
    assert answer["usage"] == {"prompt_tokens": 5, "total_tokens": 5}


async def test_base64_is_little_endian_float32(make_client: MakeClient) -> None:
    client = await make_client(embedder=CountingEmbedder())
    answer = (await client.post(EMBEDDINGS, json=body(encoding_format="base64"))).json()
    raw = base64.b64decode(answer["data"][0]["embedding"])
    assert raw == array.array("f", [3, 0.5, -1.0]).tobytes()


@pytest.mark.parametrize("name", ["encoding_format", "dimensions", "user"])
async def test_an_explicit_null_is_an_omitted_field(make_client: MakeClient, name: str) -> None:
    client = await make_client(embedder=CountingEmbedder())
    assert (await client.post(EMBEDDINGS, json=body(**{name: None}))).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": [1, 2]}, "input"),
        ({"input": [[1], [2]]}, "input"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"dimensions": 2}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
        ({"model": None}, "model"),
    ],
    ids=lambda value: "" if isinstance(value, str) else json.dumps(value)[:40],
)
async def test_what_is_wrong_is_said_with_the_fields_name(
    make_client: MakeClient, fields: dict[str, Any], param: str
) -> None:
    client = await make_client(embedder=CountingEmbedder())
    response = await client.post(EMBEDDINGS, json=body(**fields))
    assert response.status_code == 400
    assert error_of(response.json())["param"] == param


async def test_the_embedders_only_dimension_may_be_named(make_client: MakeClient) -> None:
    client = await make_client(embedder=CountingEmbedder())
    assert (await client.post(EMBEDDINGS, json=body(dimensions=3))).status_code == 200


async def test_the_served_models_name_and_the_embedders_work_others_do_not(make_client: MakeClient) -> None:
    client = await make_client(embedder=CountingEmbedder())
    assert (await client.post(EMBEDDINGS, json=body(model="smol"))).status_code == 200
    response = await client.post(EMBEDDINGS, json=body(model="nope"))
    assert response.status_code == 404
    assert error_of(response.json())["code"] == "model_not_found"


async def test_a_service_without_embedder_has_no_such_model(make_client: MakeClient) -> None:
    client = await make_client()
    assert (await client.post(EMBEDDINGS, json=body())).status_code == 404


@pytest.mark.parametrize(
    ("error", "status"),
    [(InvalidRequest("too long", param="input"), 400), (EmbedderUnavailable("gone"), 503)],
    ids=["too long", "gone"],
)
async def test_the_embedders_refusals_keep_their_status(
    make_client: MakeClient, error: Exception, status: int
) -> None:
    client = await make_client(embedder=CountingEmbedder(error))
    response = await client.post(EMBEDDINGS, json=body())
    assert response.status_code == status
    error_of(response.json())


async def test_the_embedder_is_listed_among_the_models(make_client: MakeClient) -> None:
    client = await make_client(embedder=CountingEmbedder())
    models = (await client.get("/v1/models")).json()["data"]
    assert [model["id"] for model in models] == ["smol", "tiny-embedder"]
