"""spec.engine: what computes the tokens."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ferry_api.runtime_config import EngineType, Numerics
from ferry_api.schema import (
    Bool,
    Int,
    ListMap,
    Opaque,
    Rule,
    Rules,
    SpecModel,
    Text,
    at_least,
    matches,
)
from ferry_api.spec.references import ApiKeyRef, ObjectName, SecretKey
from ferry_api.values import Quantity

# The runtime reads these itself; the operator sets them from the manifest.
RESERVED_ENV = ("MODEL_NAME", "MAX_BATCH_SIZE", "BATCH_WAIT_MS", "MAX_NEW_TOKENS", "REDIS_URL")


class KeySelector(SpecModel):
    """One entry of a Secret or ConfigMap."""

    name: ObjectName = Field(description="Name of the object.")
    key: SecretKey = Field(description="Entry to read.")
    optional: Bool = Field(False, description="Start the pod even when the object or entry is missing.")


class EnvVarSource(SpecModel):
    """Where a variable's value comes from. Kubernetes' own EnvVarSource."""

    secret_key_ref: KeySelector | None = Field(None, description="An entry of a Secret.")
    config_map_key_ref: KeySelector | None = Field(None, description="An entry of a ConfigMap.")
    field_ref: Annotated[dict[str, Any] | None, Opaque()] = Field(
        None, description="A field of the pod, as in a pod's env."
    )
    resource_field_ref: Annotated[dict[str, Any] | None, Opaque()] = Field(
        None, description="A resource of the container, as in a pod's env."
    )

    RULES = (
        Rule(
            "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef), "
            "has(self.resourceFieldRef)].filter(given, given).size() == 1",
            lambda s: (
                sum(
                    given is not None
                    for given in (s.secret_key_ref, s.config_map_key_ref, s.field_ref, s.resource_field_ref)
                )
                == 1
            ),
            "needs exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef",
        ),
    )


class EnvVar(SpecModel):
    """An environment variable of the runtime's container."""

    name: Annotated[
        Text,
        Field(min_length=1, max_length=253),
        matches("^[A-Za-z_][A-Za-z0-9_]*$", "must be a variable's name: letters, digits and underscores"),
        Rules(
            (
                Rule(
                    f"!self.startsWith('FERRY_') && !(self in {list(RESERVED_ENV)})",
                    lambda v: not v.startswith("FERRY_") and v not in RESERVED_ENV,
                    "is set from the manifest's other fields (model.source, batching, generation, "
                    "cache.redis): change those instead",
                ),
            )
        ),
    ] = Field(description="Name of the variable.")
    value: Annotated[Text | None, Field(max_length=4096)] = Field(
        None, description="Its value; $(OTHER) refers to an earlier variable."
    )
    value_from: EnvVarSource | None = Field(None, description="Where the value comes from instead.")

    RULES = (
        Rule(
            "!(has(self.value) && has(self.valueFrom))",
            lambda e: e.value is None or e.value_from is None,
            "has both value and valueFrom: remove one of the two",
            field="valueFrom",
        ),
    )


class KVCache(SpecModel):
    """Memory for the keys and values of running and remembered tokens."""

    memory: Annotated[Quantity | None, at_least("16Mi", "4Gi")] = Field(
        None, description="Bound of the memory; unset: chosen from what is free after loading the weights."
    )


class Upstream(SpecModel):
    """An OpenAI-compatible server that generates in this engine's place."""

    url: Annotated[
        Text,
        Field(min_length=1, max_length=2048),
        matches(
            "^https?://[^/@?# ]+(/[^@?# ]*)?$",
            "must be an http:// or https:// address without user, password, query or fragment, such as "
            "http://vllm.models.svc:8000/v1; a key belongs in secretRef",
        ),
    ] = Field(description="Base address of the API, usually ending in /v1.")
    model: Annotated[Text | None, Field(min_length=1, max_length=253)] = Field(
        None, description="The name that the upstream knows the model by; unset: the served name."
    )
    secret_ref: ApiKeyRef | None = Field(None, description="API key to send to the upstream.")


class EngineSpec(SpecModel):
    """What computes the tokens."""

    type: EngineType = Field(
        EngineType.TRANSFORMERS,
        description="Transformers: Ferry's own engine. VLLM: for models past one GPU. OpenAICompatible: "
        "another server, named in upstream.",
    )
    numerics: Numerics = Field(
        Numerics.FAST,
        description="Fast: the quickest kernels; answers may differ in near-ties with what else is in "
        "the batch. Deterministic: bitwise equal alone and in any batch.",
    )
    kv_cache: KVCache = Field(KVCache(), description="Memory for running and remembered tokens.")
    max_batched_tokens: Int | None = Field(
        None,
        ge=16,
        le=1_048_576,
        description="Most prompt tokens computed in one step; unset: from the measured cost of a step.",
    )
    image: Annotated[
        Text | None,
        Field(min_length=1, max_length=512),
        matches("^[A-Za-z0-9][A-Za-z0-9._/:@-]*$", "must be an image reference, such as registry/name:tag"),
    ] = Field(None, description="Container image of the runtime; unset: the operator's.")
    args: Annotated[tuple[Annotated[Text, Field(max_length=1024)], ...], Field(max_length=64)] = Field(
        (), description="Further arguments of the container's command."
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64), ListMap("name")] = Field(
        (), description="Further environment variables of the container."
    )
    upstream: Upstream | None = Field(
        None, description="The server behind engine type OpenAICompatible, and only with it."
    )

    # The API server checks `default: {}` against these before it fills in the fields' defaults:
    # each field is asked for before it is read.
    RULES = (
        Rule(
            "!has(self.type) || self.type != 'OpenAICompatible' || has(self.upstream)",
            lambda e: e.type != EngineType.OPENAI_COMPATIBLE or e.upstream is not None,
            "type OpenAICompatible needs upstream.url, the address of the server to ask",
            field="upstream",
        ),
        Rule(
            "(has(self.type) && self.type == 'OpenAICompatible') || !has(self.upstream)",
            lambda e: e.type == EngineType.OPENAI_COMPATIBLE or e.upstream is None,
            "upstream is used by type OpenAICompatible only: set that type or remove upstream",
            field="upstream",
        ),
        Rule(
            "!has(self.type) || self.type == 'Transformers' || !has(self.numerics) || "
            "self.numerics != 'Deterministic'",
            lambda e: e.type == EngineType.TRANSFORMERS or e.numerics != Numerics.DETERMINISTIC,
            "Deterministic is a promise of the Transformers engine only: write Fast",
            field="numerics",
        ),
    )
