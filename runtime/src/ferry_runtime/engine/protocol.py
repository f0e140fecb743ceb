"""The contract between the pipeline and whatever generates tokens.

A backend takes token ids and sampling parameters and yields deltas of text. Everything in here
crosses a process border, so the types are msgspec structs and hold no torch objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Protocol

import msgspec


class FinishReason(StrEnum):
    """Why a sequence ended, in OpenAI's vocabulary."""

    STOP = "stop"
    LENGTH = "length"


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one sequence picks its tokens; every row of a batch has its own.

    Values are already validated and resolved: nothing here is "unset" except where None says so.
    """

    max_tokens: int
    temperature: float = 1.0  # 0 is greedy
    top_p: float = 1.0
    top_k: int = 0  # 0 is off
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None  # None: a fresh seed per sequence
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop_in_output: bool = False
    logit_bias: dict[int, float] = {}
    logprobs: int | None = None  # alternatives per token; 0: the chosen token only; None: off
    prompt_logprobs: int | None = None  # the same for prompt tokens (completions with echo)
    min_tokens: int = 0
    ignore_eos: bool = False
    skip_special_tokens: bool = True


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sequence to generate. A request with n choices becomes n of these.

    ``request_id`` is minted by the server and unique among open sequences. ``headers`` are sent along to
    an engine that is a server itself.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    headers: dict[str, str] = {}


class Alternative(msgspec.Struct, frozen=True, array_like=True):
    """A token that could have been chosen. ``raw`` is its exact bytes, ``text`` may hold U+FFFD."""

    token_id: int
    text: str
    raw: bytes
    logprob: float  # finite: -inf is sent as -9999.0


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """A generated (or prompt) token with its log-probability and the most likely alternatives."""

    token: Alternative
    top: tuple[Alternative, ...] = ()


class Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one step added to one sequence.

    ``token_ids`` counts every generated token once, held-back text or not, so their sum over a
    sequence is its true number of completion tokens (an end-of-sequence token is counted, as
    OpenAI and vLLM do). ``logprobs`` has one entry per id in ``token_ids``, apart from an
    end-of-sequence token, whose text is not part of the answer.
    """

    request_id: str
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    # Only on a sequence's first delta, and only when asked for; its first entry has logprob 0.
    prompt_logprobs: tuple[TokenLogprob, ...] | None = None
    cached_prompt_tokens: int = 0  # prompt tokens whose keys and values were reused
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None  # the stop string or stop token id that matched


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine loaded; known once it is ready."""

    family: str  # the config's model_type
    device: str
    dtype: str
    numerics: str  # Fast | Deterministic
    vocab_size: int  # rows of the output layer: the bound for every token id
    context_length: int  # tokens of prompt + answer that one sequence may hold
    eos_token_ids: tuple[int, ...]
    slots: int  # sequences in a decode batch
    kv_block_tokens: int
    kv_blocks: int
    parameters: int
    weights_bytes: int
    kv_bytes: int
    load_seconds: float


class EngineState(StrEnum):
    LOADING = "loading"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


class EngineStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A snapshot after a step; counters grow over one life of the engine process."""

    running: int = 0
    waiting: int = 0
    steps: int = 0
    decode_rows: int = 0  # rows in the latest decode batch
    prefill_tokens: int = 0  # counter: prompt tokens computed
    reused_tokens: int = 0  # counter: prompt tokens taken from saved prefixes
    generated_tokens: int = 0  # counter
    kv_blocks_used: int = 0
    kv_blocks_total: int = 0
    preemptions: int = 0
    step_seconds: float = 0.0  # wall time of the latest step


class DeltaStream(Protocol):
    """The deltas of one open sequence. An ``async def`` generator of Delta is one too."""

    def __aiter__(self) -> AsyncIterator[Delta]: ...

    async def __anext__(self) -> Delta: ...

    async def aclose(self) -> None:
        """Cancel if it has not finished: the slot is free within one step. Idempotent."""
        ...


class Backend(Protocol):
    """Generates tokens. Implementations: ``ProcessBackend`` (torch, in a supervised child
    process), ``UpstreamBackend`` (another OpenAI-compatible server), ``FakeBackend`` (tests)."""

    @property
    def state(self) -> EngineState: ...

    @property
    def info(self) -> ModelInfo:
        """Raises EngineNotReady until the first load has finished."""
        ...

    @property
    def stats(self) -> EngineStats: ...

    async def start(self) -> None:
        """Load, warm up with a real generation, and return when ready.

        Raises EngineLoadError with a sentence for the user when the model cannot be served.
        """
        ...

    def generate(self, request: GenerateRequest) -> DeltaStream:
        """Submit at once (not at the first iteration) and yield deltas until one has a
        finish_reason.

        Closing the iterator early cancels: the slot is free within one step. Raises
        EngineNotReady (at the call) when the state is not READY; while iterating, EngineDied when
        the engine process ends first, RequestFailed when this row alone failed.
        """
        ...

    async def stop(self) -> None: ...
