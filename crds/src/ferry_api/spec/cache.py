"""spec.cache: which answers are kept, for whom, and where."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from ferry_api.runtime_config import CacheScope, SampledRequests, Verifier
from ferry_api.schema import (
    SAME_CLASS,
    Atomic,
    Bool,
    Int,
    Number,
    Rule,
    Rules,
    SpecModel,
    Text,
    TransitionRule,
    at_least,
    between,
    matches,
    only_grows,
)
from ferry_api.spec.pod import ResourceRequirements
from ferry_api.spec.references import CertificateRef, ObjectName, RedisUrlRef
from ferry_api.values import Duration, Quantity

_ANEW = "remove storage, which deletes the volume with its entries, and write it again"


class RedisStorage(SpecModel):
    """A volume for the managed Redis, so that entries survive its restart."""

    size: Annotated[Quantity, at_least("64Mi", "1Gi"), only_grows(_ANEW)] = Field(
        description="Size of the volume. It can grow, not shrink."
    )
    class_: ObjectName | None = Field(
        None, alias="class", description="StorageClass of the claim; unset: the cluster's default."
    )

    TRANSITIONS = (
        TransitionRule(
            SAME_CLASS,
            lambda new, old: new.class_ == old.class_,
            f"the class of a claimed volume cannot be changed: restore it, or {_ANEW}",
            field="class",
        ),
    )


def _max_memory_fits(redis: ManagedRedis) -> bool:
    limit = redis.resources.limits.get("memory")
    return redis.max_memory is None or limit is None or redis.max_memory.value <= limit.value * Decimal("0.6")


class ManagedRedis(SpecModel):
    """A Redis that the operator runs for this InferenceService."""

    image: Annotated[
        Text | None,
        Field(min_length=1, max_length=512),
        matches("^[A-Za-z0-9][A-Za-z0-9._/:@-]*$", "must be an image reference, such as registry/name:tag"),
    ] = Field(None, description="Container image; unset: the operator's.")
    resources: Annotated[ResourceRequirements, Atomic()] = Field(
        ResourceRequirements(
            requests={"cpu": Quantity("100m"), "memory": Quantity("256Mi")},
            limits={"memory": Quantity("256Mi")},
        ),
        description="What the container asks for and is bounded by.",
    )
    max_memory: Annotated[Quantity | None, at_least("8Mi", "128Mi")] = Field(
        None, description="Redis' own bound; unset: 60 % of the memory limit."
    )
    storage: RedisStorage | None = Field(
        None, description="A volume for the entries; unset: they are lost when Redis restarts."
    )

    RULES = (
        Rule(
            "!has(self.maxMemory) || !has(self.resources.limits) || !('memory' in self.resources.limits) || "
            "quantity(string(self.maxMemory)).asApproximateFloat() <= "
            "quantity(string(self.resources.limits['memory'])).asApproximateFloat() * 0.6",
            _max_memory_fits,
            "must be at most 60 % of resources.limits.memory: Redis needs the rest for copies and buffers",
            field="maxMemory",
        ),
    )


class RedisTls(SpecModel):
    """How the external Redis proves who it is."""

    ca_secret_ref: CertificateRef = Field(description="The certificate authority to trust.")


class ExternalRedis(SpecModel):
    """A Redis or Valkey of yours."""

    url_secret_ref: RedisUrlRef = Field(description="The address, with its password.")
    tls: RedisTls | None = Field(
        None, description="For a rediss:// address whose certificate is not publicly signed."
    )


class RedisSpec(SpecModel):
    """Where entries are kept. Without either field the operator runs a Redis with defaults."""

    managed: ManagedRedis | None = Field(None, description="A Redis that the operator runs.")
    external: ExternalRedis | None = Field(None, description="A Redis or Valkey of yours.")

    RULES = (
        Rule(
            "!has(self.managed) || !has(self.external)",
            lambda r: r.managed is None or r.external is None,
            "has both managed and external: remove one of the two",
        ),
    )


class CacheSpec(SpecModel):
    """Which answers are kept and served again."""

    enabled: Bool = Field(True, description="Whether there is a cache at all.")
    similarity_threshold: Annotated[
        Number,
        Field(ge=0, le=1),
        Rules(
            (
                Rule(
                    "self >= 0.5",
                    lambda v: v >= 0.5,
                    "is a cosine similarity (1 means the same), not a distance: write a value from 0.5 to 1, "
                    "such as 0.8",
                ),
            )
        ),
    ] = Field(
        0.8,
        description="Least cosine similarity of a kept question that may answer a new one. With verifier "
        "Learned it only selects candidates.",
    )
    verifier: Verifier = Field(
        Verifier.LEARNED,
        description="Learned: a candidate must also agree in numbers, negation, names and order. None: the "
        "threshold alone decides.",
    )
    sampled_requests: SampledRequests = Field(
        SampledRequests.WHEN_OMITTED,
        description="Whether requests that sample (temperature above 0) may be answered from the cache. "
        "WhenOmitted: only those that give no temperature.",
    )
    ttl: Annotated[Duration, between("1s", "8760h", "1h")] = Field(
        Duration("1h"), description="How long an answer may be served after it was generated."
    )
    max_entries: Int = Field(100_000, ge=1, le=100_000_000, description="Most answers that are kept.")
    scope: CacheScope = Field(
        CacheScope.TENANT,
        description="Tenant: answers stay with the tenant whose request made them. Shared: any tenant may "
        "be served.",
    )
    redis: RedisSpec = Field(RedisSpec(), description="Where the answers are kept.")
