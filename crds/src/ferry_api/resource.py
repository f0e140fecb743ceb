"""The InferenceService: group, version and the whole object."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from ferry_api.names import NAME_RULE
from ferry_api.schema import Int, Rules, SpecModel, Text
from ferry_api.spec import InferenceServiceSpec
from ferry_api.status import InferenceServiceStatus

GROUP: Final = "serving.ferry.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "InferenceService"
PLURAL: Final = "inferenceservices"
SINGULAR: Final = "inferenceservice"
SHORT_NAME: Final = "infsvc"


class ObjectMeta(SpecModel):
    """The part of Kubernetes' metadata that Ferry reads; the rest is kept as it came."""

    model_config = ConfigDict(extra="allow")

    name: Annotated[Text, Field(min_length=1, max_length=253), Rules((NAME_RULE,))] = Field(
        description="Name of the resource and of its Service."
    )
    namespace: Annotated[Text | None, Field(max_length=63)] = None
    uid: Text | None = None
    generation: Int | None = None
    resource_version: Text | None = None
    labels: dict[Text, Text] = Field({})
    annotations: dict[Text, Text] = Field({})
    deletion_timestamp: Text | None = None


class InferenceService(SpecModel):
    """A model, how requests to it are batched, and how its answers are cached."""

    api_version: Literal["serving.ferry.dev/v1alpha1"] = "serving.ferry.dev/v1alpha1"
    kind: Literal["InferenceService"] = "InferenceService"
    metadata: ObjectMeta
    spec: InferenceServiceSpec
    status: InferenceServiceStatus = InferenceServiceStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def served_name(self) -> str:
        return self.spec.model.served_name or self.metadata.name
