"""spec.scaling: who changes spec.replicas, within which bounds."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from ferry_api.schema import Int, Rule, SpecModel, between
from ferry_api.values import Duration


class ScalingController(StrEnum):
    BUILTIN = "Builtin"
    EXTERNAL = "External"


class ScalingTarget(SpecModel):
    """What the built-in controller holds."""

    queued_requests: Int = Field(4, ge=1, le=10_000, description="Waiting requests per replica to aim at.")


class ScalingSpec(SpecModel):
    """Lets replicas follow the load."""

    controller: ScalingController = Field(
        ScalingController.BUILTIN,
        description="Builtin: the operator writes replicas, by the load. External: an HPA "
        "or KEDA that targets this InferenceService does.",
    )
    min_replicas: Int = Field(1, ge=0, le=1000, description="Fewest replicas.")
    max_replicas: Int = Field(ge=1, le=1000, description="Most replicas.")
    target: ScalingTarget = Field(ScalingTarget(), description="What the built-in controller holds.")
    scale_down_delay: Annotated[Duration, between("0s", "24h", "5m")] = Field(
        Duration("5m"), description="How long the load must have been lower before a replica is removed."
    )

    RULES = (
        Rule(
            "self.minReplicas <= self.maxReplicas",
            lambda s: s.min_replicas <= s.max_replicas,
            "must not be more than maxReplicas",
            field="minReplicas",
        ),
        Rule(
            "self.controller != 'Builtin' || self.minReplicas >= 1",
            lambda s: s.controller != ScalingController.BUILTIN or s.min_replicas >= 1,
            "must be at least 1 with controller Builtin: without a pod nothing tells it of waiting requests; "
            "for 0 set replicas to 0, or write controller External",
            field="minReplicas",
        ),
    )
