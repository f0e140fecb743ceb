"""From OTEL_… variables to a tracer that exports over OTLP/HTTP, or to None.

The variables are OpenTelemetry's: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/.
Sampler, batching, resource attributes, headers and timeouts are read by the SDK itself.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ferry_runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from ferry_runtime.tracing.spans import Tracing

logger = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether the variables ask for traces: an exporter, or an endpoint to export to.

    Raises ConfigurationError for what is asked for and not there to be had.
    """

    def value(name: str) -> str:
        return environment.get(name, "").strip()

    if value("OTEL_SDK_DISABLED").lower() == "true":
        return False
    exporter = value("OTEL_TRACES_EXPORTER").lower()
    if exporter not in ("", "otlp", "none"):
        raise ConfigurationError(f"OTEL_TRACES_EXPORTER={exporter!r} is not valid: it must be otlp or none.")
    if exporter == "none" or not (exporter or any(map(value, _ENDPOINTS))):
        return False
    protocol = next(filter(None, map(value, _PROTOCOLS)), _PROTOCOL)
    if protocol != _PROTOCOL:
        raise ConfigurationError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r} is not supported: traces are sent as {_PROTOCOL}, "
            "usually to port 4318."
        )
    return True


def start_tracing(environment: Mapping[str, str], *, model: str, version: str) -> Tracing | None:
    """None where nobody asks for traces, or the extra is not installed, which is said once.

    Raises ConfigurationError.
    """
    if not wanted(environment):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        from ferry_runtime.tracing.spans import Tracing  # noqa: PLC0415
    except ImportError:
        logger.warning("Traces are asked for, but not installed: add the extra, ferry-serving[otel].")
        return None
    own = {"service.name": "ferry-runtime", "service.version": version, "gen_ai.request.model": model}
    # What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say wins.
    resource = Resource(own).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider, version)
