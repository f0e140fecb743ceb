"""What the operator (or `ferry run`) hands to a runtime: one document, a cold and a hot part.

*Cold* decides what is loaded into memory; a change means new pods. *Hot* is reread while serving.
Units are plain: seconds, bytes, counts. The resource's own spellings ("50ms", "4Gi") end here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class DType(StrEnum):
    AUTO = "Auto"
    FLOAT32 = "Float32"
    BFLOAT16 = "BFloat16"
    FLOAT16 = "Float16"


class Numerics(StrEnum):
    FAST = "Fast"
    DETERMINISTIC = "Deterministic"


class EngineType(StrEnum):
    TRANSFORMERS = "Transformers"
    VLLM = "VLLM"
    OPENAI_COMPATIBLE = "OpenAICompatible"


class Quantization(StrEnum):
    NONE = "None"
    INT8 = "Int8"
    INT4 = "Int4"


class BatchingMode(StrEnum):
    FIXED = "Fixed"
    ADAPTIVE = "Adaptive"


class Verifier(StrEnum):
    """What has to accept a candidate of the semantic cache. NONE: the threshold alone decides."""

    LEARNED = "Learned"
    NONE = "None"


class SampledRequests(StrEnum):
    """Which requests with an effective temperature above 0 the cache may answer."""

    NEVER = "Never"
    WHEN_OMITTED = "WhenOmitted"  # those that give no temperature themselves
    ALWAYS = "Always"


class CacheScope(StrEnum):
    TENANT = "Tenant"
    SHARED = "Shared"


class ModelConfig(_Config):
    source: str
    served_name: str
    dtype: DType = DType.AUTO
    quantization: Quantization = Quantization.NONE
    context_length: int | None = None  # None: the model's own


class EngineConfig(_Config):
    type: EngineType = EngineType.TRANSFORMERS
    numerics: Numerics = Numerics.FAST
    kv_cache_bytes: int | None = None  # None: chosen from the memory that is free
    max_batched_tokens: int | None = None  # None: from measured cost
    upstream_url: str | None = None
    upstream_model: str | None = None  # None: the served name


class BatchingConfig(_Config):
    max_batch_size: int = 8
    max_wait_seconds: float = 0.05
    mode: BatchingMode = BatchingMode.FIXED
    target_time_to_first_token_seconds: float | None = None  # only with ADAPTIVE


class ColdConfig(_Config):
    model: ModelConfig
    engine: EngineConfig = EngineConfig()
    batching: BatchingConfig = BatchingConfig()


class GenerationConfig(_Config):
    max_tokens: int | None = None  # used when a request omits it; None: what the context leaves
    max_tokens_limit: int | None = None
    temperature: float | None = None  # used when omitted; None: the API's own default


class QueueConfig(_Config):
    max_requests: int = 256
    max_tokens: int = 65536
    timeout_seconds: float = 60.0


class CacheConfig(_Config):
    enabled: bool = False
    similarity_threshold: float = 0.80
    verifier: Verifier = Verifier.LEARNED
    sampled_requests: SampledRequests = SampledRequests.WHEN_OMITTED
    scope: CacheScope = CacheScope.TENANT
    ttl_seconds: float = 3600.0
    max_entries: int = 100_000


class HotConfig(_Config):
    generation: GenerationConfig = GenerationConfig()
    queue: QueueConfig = QueueConfig()
    cache: CacheConfig = CacheConfig()
    drain_timeout_seconds: float = 30.0


class RuntimeConfig(_Config):
    api_version: Literal["runtime.serving.ferry.dev/v1alpha1"] = "runtime.serving.ferry.dev/v1alpha1"
    kind: Literal["RuntimeConfig"] = "RuntimeConfig"
    generation: int = Field(default=0, description="metadata.generation that this came from")
    cold: ColdConfig
    hot: HotConfig = HotConfig()
