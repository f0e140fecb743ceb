from __future__ import annotations

from typing import Any

import pytest

from ferry_api.runtime_config import GenerationConfig
from ferry_runtime.api.resolve import Limits, Wanted, sampling_params
from ferry_runtime.api.schemas.sampling import SamplingFields
from ferry_runtime.engine.protocol import SamplingParams
from ferry_runtime.errors import InvalidRequest


def resolve(
    fields: dict[str, Any] | None = None,
    *,
    prompt_tokens: int = 24,
    generation: GenerationConfig | None = None,
    **wanted: Any,
) -> SamplingParams:
    limits = Limits(context_length=1024, vocab_size=100, generation=generation or GenerationConfig())
    settings = {"max_tokens": None, "prompt_param": "messages"} | wanted
    return sampling_params(
        SamplingFields.model_validate(fields or {}), Wanted(**settings), limits, prompt_tokens
    )


def test_omitted_max_tokens_is_what_the_context_leaves() -> None:
    assert resolve(prompt_tokens=24).max_tokens == 1000


@pytest.mark.parametrize(
    ("configured", "route", "prompt", "expected"),
    [(50, None, 24, 50), (50, 16, 24, 50), (None, 16, 24, 16), (50, None, 1000, 24), (None, 16, 1023, 1)],
)
def test_omitted_max_tokens_is_the_configured_default_then_the_routes_within_the_context(
    configured: int | None, route: int | None, prompt: int, expected: int
) -> None:
    params = resolve(
        prompt_tokens=prompt, generation=GenerationConfig(max_tokens=configured), default_max_tokens=route
    )
    assert params.max_tokens == expected


def test_the_limit_bounds_the_default_and_refuses_more() -> None:
    generation = GenerationConfig(max_tokens=50, max_tokens_limit=20)
    assert resolve(generation=generation).max_tokens == 20
    with pytest.raises(InvalidRequest, match=r"21.*at most 20") as refused:
        resolve(generation=generation, max_tokens=21)
    assert refused.value.param == "max_tokens"


def test_prompt_and_answer_together_must_fit_and_the_refusal_has_the_numbers() -> None:
    assert resolve(max_tokens=1000, prompt_tokens=24).max_tokens == 1000
    with pytest.raises(InvalidRequest, match=r"1024.*24.*1001") as refused:
        resolve(max_tokens=1001, prompt_tokens=24)
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "max_tokens")


@pytest.mark.parametrize("max_tokens", [None, 1])
def test_a_prompt_that_fills_the_context_is_refused(max_tokens: int | None) -> None:
    with pytest.raises(InvalidRequest, match="1024") as refused:
        resolve(max_tokens=max_tokens, prompt_tokens=1024)
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "messages")


def test_min_tokens_is_held_against_the_resolved_max_tokens() -> None:
    assert resolve({"min_tokens": 5}, max_tokens=5).min_tokens == 5
    with pytest.raises(InvalidRequest, match="min_tokens is 6"):
        resolve({"min_tokens": 6}, max_tokens=5)
    with pytest.raises(InvalidRequest, match="min_tokens is 17"):
        resolve({"min_tokens": 17}, default_max_tokens=16)


@pytest.mark.parametrize(
    ("sent", "configured", "route", "expected"),
    [
        (None, None, 1.0, 1.0),
        (None, None, 0.0, 0.0),
        (None, 0.7, 0.0, 0.7),
        (0.0, 0.7, 1.0, 0.0),
        (1e-9, None, 1.0, 0.0),
        (0.2, None, 1.0, 0.2),
    ],
)
def test_temperature_is_the_bodys_then_the_configurations_then_the_routes(
    sent: float | None, configured: float | None, route: float, expected: float
) -> None:
    params = resolve(
        {"temperature": sent},
        generation=GenerationConfig(temperature=configured),
        default_temperature=route,
    )
    assert params.temperature == expected


@pytest.mark.parametrize(("sent", "expected"), [(-1, 0), (0, 0), (1, 1), (99, 99), (100, 0), (10**6, 0)])
def test_top_k_that_keeps_every_token_is_off(sent: int, expected: int) -> None:
    assert resolve({"top_k": sent}).top_k == expected


def test_a_nucleus_of_nothing_is_the_likeliest_token() -> None:
    params = resolve({"top_p": 0, "top_k": 40})
    assert (params.top_p, params.top_k) == (1.0, 1)


@pytest.mark.parametrize("field", ["stop_token_ids", "logit_bias"])
def test_token_ids_are_bounded_by_the_output_layer(field: str) -> None:
    def value(token: int) -> Any:
        return [token] if field == "stop_token_ids" else {str(token): 1}

    resolve({field: value(99)})
    with pytest.raises(InvalidRequest, match=r"100.*out of vocabulary.*99") as refused:
        resolve({field: value(100)})
    assert refused.value.param == field


def test_everything_that_is_sent_arrives() -> None:
    params = resolve(
        {
            "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "repetition_penalty": 1.1,
            "presence_penalty": -1, "frequency_penalty": 2, "seed": -3, "stop": "END",
            "stop_token_ids": [4, 5], "include_stop_str_in_output": True, "logit_bias": {"6": -100},
            "min_tokens": 2, "ignore_eos": True, "skip_special_tokens": False,
        },
        max_tokens=9,
        logprobs=3,
        prompt_logprobs=1,
    )  # fmt: skip
    assert params == SamplingParams(
        max_tokens=9, temperature=0.5, top_p=0.9, top_k=7, min_p=0.1, repetition_penalty=1.1,
        presence_penalty=-1.0, frequency_penalty=2.0, seed=-3, stop=("END",), stop_token_ids=(4, 5),
        include_stop_in_output=True, logit_bias={6: -100.0}, logprobs=3, prompt_logprobs=1,
        min_tokens=2, ignore_eos=True, skip_special_tokens=False,
    )  # fmt: skip
