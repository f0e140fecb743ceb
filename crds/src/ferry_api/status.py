"""The status of an InferenceService: written by the operator only."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from ferry_api.schema import Int, ListMap, SpecModel, Text


class ConditionType(StrEnum):
    """All present in every state."""

    AVAILABLE = "Available"
    READY = "Ready"
    PROGRESSING = "Progressing"
    STALLED = "Stalled"
    RUNTIME_READY = "RuntimeReady"
    CACHE_READY = "CacheReady"


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Authentication(StrEnum):
    ANONYMOUS = "Anonymous"
    API_KEYS = "ApiKeys"


class Condition(SpecModel):
    """One truth about the resource, in the form of Kubernetes' metav1.Condition."""

    model_config = ConfigDict(extra="ignore")

    type: Annotated[Text, Field(max_length=316, pattern="^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?$")] = Field(
        description="Available: some revision serves at the URL. Ready: the current generation's pods all "
        "serve. Progressing: being rolled out. Stalled: cannot go on without a change. RuntimeReady, "
        "CacheReady: the two parts."
    )
    status: ConditionStatus = Field(description="True, False or Unknown.")
    observed_generation: Int | None = Field(None, ge=0, description="The generation that this is about.")
    last_transition_time: Annotated[Text, Field(json_schema_extra={"format": "date-time"})] = Field(
        description="When status last changed."
    )
    reason: Annotated[
        Text, Field(min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    ] = Field(description="Why, in one CamelCase word.")
    message: Annotated[Text, Field(max_length=32768)] = Field(description="Why, for people.")


class InferenceServiceStatus(SpecModel):
    """What is, as far as the operator has seen."""

    # A newer operator may have written more; an older one still has to read the rest.
    model_config = ConfigDict(extra="ignore")

    observed_generation: Int | None = Field(
        None, ge=0, description="The metadata.generation that the rest of the status is about."
    )
    url: Annotated[Text | None, Field(max_length=2048)] = Field(None, description="Where clients reach it.")
    replicas: Int = Field(0, ge=0, description="Pods that exist.")
    ready_replicas: Int = Field(0, ge=0, description="Pods that serve.")
    selector: Annotated[Text | None, Field(max_length=4096)] = Field(
        None, description="Label selector of the pods, for the scale subresource."
    )
    image: Annotated[Text | None, Field(max_length=512)] = Field(
        None, description="Runtime image in use; an upgrade of the operator keeps it."
    )
    authentication: Authentication | None = Field(
        None, description="Anonymous: anyone who reaches the service may use it. ApiKeys: a key is asked for."
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), ListMap("type")] = Field(
        (), description="What is true, and why."
    )

    def condition(self, of_type: ConditionType) -> Condition | None:
        return next((item for item in self.conditions if item.type == of_type), None)
