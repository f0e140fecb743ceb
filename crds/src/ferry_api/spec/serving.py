"""spec.generation and spec.batching: what a request gets, and how requests share the engine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ferry_api.runtime_config import BatchingMode
from ferry_api.schema import Int, Number, Rule, SpecModel, between
from ferry_api.values import Duration


class GenerationSpec(SpecModel):
    """What a request gets that does not say."""

    max_tokens: Int | None = Field(
        None,
        ge=1,
        le=10_485_760,
        description="Tokens generated when a request gives no limit; unset: what the context leaves.",
    )
    max_tokens_limit: Int | None = Field(
        None, ge=1, le=10_485_760, description="Most tokens that a request may ask for."
    )
    temperature: Number | None = Field(
        None,
        ge=0,
        le=2,
        description="Temperature when a request gives none (0 is greedy); unset: each API's own default.",
    )

    RULES = (
        Rule(
            "!has(self.maxTokens) || !has(self.maxTokensLimit) || self.maxTokens <= self.maxTokensLimit",
            lambda g: (
                g.max_tokens is None or g.max_tokens_limit is None or g.max_tokens <= g.max_tokens_limit
            ),
            "must not be more than maxTokensLimit: a request without a limit would be refused",
            field="maxTokens",
        ),
    )


class QueueSpec(SpecModel):
    """Bounds of what may wait; past them requests are refused with 429 or 503."""

    max_requests: Int = Field(256, ge=1, le=100_000, description="Most requests that wait.")
    max_tokens: Int = Field(
        65536,
        ge=1,
        le=1_000_000_000,
        description="Most tokens that wait, over all requests: their prompts and "
        "the answers expected to them.",
    )
    timeout: Annotated[Duration, between("100ms", "1h", "60s")] = Field(
        Duration("60s"),
        description="Longest wait for a slot in the batch; then the request fails. "
        "Its own field timeout bounds its whole life.",
    )


class BatchingSpec(SpecModel):
    """How requests are put together."""

    max_batch_size: Int = Field(8, ge=1, le=256, description="Most sequences that are generated at once.")
    max_wait: Annotated[Duration, between("0s", "10s", "50ms")] = Field(
        Duration("50ms"),
        description="How long an idle engine waits for company after the first request; counted once.",
    )
    mode: BatchingMode = Field(
        BatchingMode.FIXED,
        description="Fixed: exactly these values. Adaptive: both follow the load, up to these.",
    )
    target_time_to_first_token: Annotated[Duration | None, between("10ms", "10m", "500ms")] = Field(
        None, description="What mode Adaptive aims at."
    )
    queue: QueueSpec = Field(QueueSpec(), description="Bounds of what may wait.")

    RULES = (
        Rule(
            "!has(self.targetTimeToFirstToken) || self.mode == 'Adaptive'",
            lambda b: b.target_time_to_first_token is None or b.mode == BatchingMode.ADAPTIVE,
            "is what mode Adaptive aims at: write mode: Adaptive, or remove it",
            field="targetTimeToFirstToken",
        ),
    )
