"""Spans as they leave over OTLP/HTTP, received by a server on loopback."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from tests.integration.runtime.http.support import serving
from tests.unit.runtime.http.support import completion_body

from ferry_runtime.tracing.setup import start_tracing


class Collector(ThreadingHTTPServer):
    """What an OpenTelemetry collector does with POST /v1/traces, and no more."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receive)
        self.received: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Receive(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/traces"
        self.server.headers.append(dict(self.headers))
        self.server.received.append(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def started(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Any:
    """As in a process with these variables; the SDK reads some of them itself."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return start_tracing(environment, model="smol", version="1.2.3")


async def test_a_collector_gets_the_spans_of_a_request_with_the_services_name(collector, monkeypatch):
    tracing = started(
        monkeypatch,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_EXPORTER_OTLP_HEADERS="x-team=a",
        OTEL_SERVICE_NAME="chat",
    )
    async with (
        serving(cached=True, tracing=tracing) as served,
        httpx.AsyncClient(base_url=served.url) as client,
    ):
        answer = await client.post("/v1/completions", json=completion_body(temperature=0))
    await tracing.stop()
    names = sorted(span.name for span in collector.spans)
    assert names == ["POST /v1/completions", "cache", "engine", "queue"]
    trace = answer.headers["traceresponse"].split("-")[1]
    assert {span.trace_id.hex() for span in collector.spans} == {trace}
    attributes = collector.received[0].resource_spans[0].resource.attributes
    resource = {attribute.key: attribute.value.string_value for attribute in attributes}
    assert (resource["service.name"], resource["service.version"]) == ("chat", "1.2.3")
    assert collector.headers[0]["x-team"] == "a"


@pytest.mark.timeout(400)
def test_a_real_server_with_its_engine_is_traced_to_its_last_request(collector, ferry_server):
    server = ferry_server(environment={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    server.wait_ready()
    answer = server.client.post("/generate", json={"prompt": "Say hi", "max_new_tokens": 3})
    assert answer.status_code == 200
    server.interrupt()  # what was not sent yet is sent now
    assert {"POST /generate", "cache", "queue", "engine"} <= {span.name for span in collector.spans}
    assert "Say hi" not in str(collector.received)
    assert answer.headers["traceresponse"].split("-")[1] in server.output


async def test_the_samplers_variables_are_honoured(collector, monkeypatch):
    tracing = started(
        monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_TRACES_SAMPLER="always_off"
    )
    async with serving(tracing=tracing) as served, httpx.AsyncClient(base_url=served.url) as client:
        assert (await client.post("/v1/completions", json=completion_body())).status_code == 200
    await tracing.stop()
    assert collector.spans == []


async def test_a_collector_that_is_away_harms_nobody(free_port, monkeypatch):
    tracing = started(
        monkeypatch,
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    )
    async with serving(tracing=tracing) as served, httpx.AsyncClient(base_url=served.url) as client:
        assert (await client.post("/v1/completions", json=completion_body())).status_code == 200
    await tracing.stop()
