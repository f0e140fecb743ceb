"""Whatever a client makes of the OpenAPI document, no answer is a 5xx, and the server goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from tests.integration.runtime.http.support import Served, threaded
from tests.unit.runtime.http.support import MODEL, CountingEmbedder, build_stack, completion_body

from ferry_runtime.api.app import create_app


def document() -> dict[str, Any]:
    """With the served model's name, without which every body would end as a 404."""
    document = create_app(build_stack().services).openapi()
    for name, schema in document["components"]["schemas"].items():
        if name.endswith("Body") and "model" in schema.get("properties", {}):
            schema["properties"]["model"] = {"enum": [MODEL]}
    return document


schema = schemathesis.openapi.from_dict(document())
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with threaded(embedder=CountingEmbedder()) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=20) as client:
        yield client


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


@pytest.fixture(scope="module")
def expected(client: httpx.Client) -> str:
    return neighbour(client)


def neighbour(client: httpx.Client) -> str:
    """The tokens of somebody else's request."""
    response = client.post("/v1/completions", json=completion_body(temperature=0))
    assert response.status_code == 200
    return str(response.json()["choices"][0]["text"])


@schema.parametrize()
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_input_breaks_the_server(
    case: schemathesis.Case, served: Served, session: requests.Session, client: httpx.Client, expected: str
) -> None:
    response = case.call(base_url=served.url, session=session, timeout=20)
    case.validate_response(response, checks=CHECKS)
    assert neighbour(client) == expected
