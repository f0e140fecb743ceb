from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from ferry_runtime.errors import ConfigurationError
from ferry_runtime.tracing.setup import start_tracing, wanted

_AT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        (_AT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({**_AT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**_AT, "OTEL_SDK_DISABLED": "true"}, False),
        ({**_AT, "OTEL_SDK_DISABLED": "false"}, True),
        ({**_AT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
    ],
)
def test_traces_are_made_where_the_standard_variables_ask_for_them(environment, expected):
    assert wanted(environment) is expected


@pytest.mark.parametrize(
    "environment",
    [
        {"OTEL_TRACES_EXPORTER": "zipkin"},
        {**_AT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        {**_AT, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"},
    ],
)
def test_what_cannot_be_had_is_refused_with_the_variables_name(environment):
    with pytest.raises(ConfigurationError, match="OTEL_"):
        wanted(environment)


def test_without_the_extra_the_server_starts_and_says_what_to_add(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with caplog.at_level(logging.WARNING):
        assert start_tracing(_AT, model="m", version="1") is None
    assert "ferry-serving[otel]" in caplog.text


async def test_the_service_is_named_as_the_variables_say(monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=chat,deployment.environment.name=test")
    named = start_tracing(_AT, model="m", version="1")
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES")
    unnamed = start_tracing(_AT, model="m", version="1")
    assert named is not None
    assert unnamed is not None
    try:
        assert named.resource["service.name"] == "chat"
        assert named.resource["deployment.environment.name"] == "test"
        assert unnamed.resource["service.name"] == "ferry-runtime"
        assert unnamed.resource["service.version"] == "1"
    finally:
        await named.stop()
        await unnamed.stop()


def test_a_server_that_nobody_traces_does_not_load_what_exports():
    script = (
        "import sys; import ferry_runtime.service; import ferry_runtime.cli.serve; "
        "from ferry_runtime.tracing.setup import start_tracing; "
        "assert start_tracing({}, model='m', version='1') is None; "
        "assert not [n for n in sys.modules if n.startswith('opentelemetry.exporter')]; "
        "assert 'ferry_runtime.tracing.spans' not in sys.modules"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
