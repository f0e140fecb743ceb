"""The spec of an InferenceService, field by field."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from ferry_api.schema import Bool, Int, ListMap, Opaque, Rule, SpecModel, between
from ferry_api.spec.cache import CacheSpec
from ferry_api.spec.engine import EngineSpec
from ferry_api.spec.model import ModelSpec
from ferry_api.spec.network import AuthSpec, NetworkSpec
from ferry_api.spec.pod import (
    Labels,
    PodTemplate,
    PullSecret,
    ResourceClaim,
    ResourceRequirements,
    Toleration,
    TopologySpread,
)
from ferry_api.spec.references import ObjectName
from ferry_api.spec.scaling import ScalingSpec
from ferry_api.spec.serving import BatchingSpec, GenerationSpec
from ferry_api.values import Duration


class UpdateStrategy(StrEnum):
    AUTO = "Auto"
    ROLLING_UPDATE = "RollingUpdate"
    RECREATE = "Recreate"


class InferenceServiceSpec(SpecModel):
    """What is to be served, and how."""

    model: ModelSpec = Field(description="Which weights are served, and how they are held in memory.")
    engine: EngineSpec = Field(EngineSpec(), description="What computes the tokens.")
    generation: GenerationSpec = Field(GenerationSpec(), description="What a request gets that does not say.")
    batching: BatchingSpec = Field(BatchingSpec(), description="How requests are put together.")
    cache: CacheSpec = Field(CacheSpec(), description="Which answers are kept and served again.")
    replicas: Int = Field(
        1, ge=0, le=1000, description="Pods that serve. kubectl scale, an HPA and scaling write it."
    )
    scaling: ScalingSpec | None = Field(None, description="Lets replicas follow the load.")
    suspend: Bool = Field(
        False, description="Stop all pods without forgetting replicas; false starts them again."
    )
    resources: ResourceRequirements = Field(
        ResourceRequirements(), description="What the runtime's container asks for and is bounded by."
    )
    resource_claims: Annotated[tuple[ResourceClaim, ...], Field(max_length=16), ListMap("name")] = Field(
        (), description="Device claims (dynamic resource allocation) of the pods."
    )
    node_selector: Labels = Field({}, description="Labels that a node must have.")
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = Field(
        (), description="Taints of nodes that the pods bear."
    )
    affinity: Annotated[dict[str, Any] | None, Opaque()] = Field(
        None, description="Kubernetes' Affinity, passed on as it is."
    )
    topology_spread_constraints: Annotated[tuple[TopologySpread, ...], Field(max_length=16)] = Field(
        (), description="How pods are spread over nodes or zones."
    )
    priority_class_name: ObjectName | None = Field(None, description="PriorityClass of the pods.")
    runtime_class_name: ObjectName | None = Field(None, description="RuntimeClass of the pods.")
    image_pull_secrets: Annotated[tuple[PullSecret, ...], Field(max_length=16), ListMap("name")] = Field(
        (), description="Credentials for private image registries."
    )
    service_account_name: ObjectName | None = Field(
        None, description="A ServiceAccount of yours; unset: one without rights that the operator makes."
    )
    pod_template: PodTemplate | None = Field(
        None,
        description="Laid over the operator's pod template as a strategic merge: maps by key, lists by name.",
    )
    auth: AuthSpec = Field(AuthSpec(), description="Who may send requests.")
    network: NetworkSpec = Field(NetworkSpec(), description="How the service is reached.")
    update_strategy: UpdateStrategy = Field(
        UpdateStrategy.AUTO,
        description="Auto: replace pods one by one where a second one could not start (GPUs, device claims, "
        "ReadWriteOnce volumes), start the new before stopping the old elsewhere.",
    )
    drain_timeout: Annotated[Duration, between("0s", "1h", "30s")] = Field(
        Duration("30s"), description="How long a stopping pod goes on with its open requests."
    )

    RULES = (
        Rule(
            "!has(self.model.contextLength) || !has(self.generation.maxTokens) || "
            "self.generation.maxTokens < self.model.contextLength",
            lambda s: (
                s.model.context_length is None
                or s.generation.max_tokens is None
                or s.generation.max_tokens < s.model.context_length
            ),
            "must be less than model.contextLength, which holds the prompt too",
            field="generation.maxTokens",
        ),
    )
