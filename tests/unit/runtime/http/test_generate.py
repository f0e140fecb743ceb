from __future__ import annotations

from typing import Any

import httpx
import pytest

from ferry_api.runtime_config import GenerationConfig, HotConfig
from ferry_runtime.engine.protocol import FinishReason
from ferry_runtime.generation import CacheInfo, CacheOutcome, GenerationRequest

from .conftest import MakeClient
from .support import ScriptedPipeline, delta, error_of

GENERATE = "/generate"
END = [delta(text=" ok", token_ids=(7, 8), finish_reason=FinishReason.STOP)]


async def request_made(make_client: MakeClient, body: dict[str, Any], **options: Any) -> GenerationRequest:
    pipeline = ScriptedPipeline(END)
    client = await make_client(pipeline=pipeline, **options)
    response = await client.post(GENERATE, json=body)
    assert response.status_code == 200, response.text
    return pipeline.requests[0]


async def test_the_answer_has_the_engines_fields_and_true_counts(make_client: MakeClient) -> None:
    client = await make_client(pipeline=ScriptedPipeline(END))
    response = await client.post(GENERATE, json={"prompt": "hi", "max_new_tokens": 9})
    body = response.json()
    assert set(body) == {
        "request_id", "prompt", "generated_text", "latency_ms", "cached", "input_tokens", "output_tokens",
        "tokens_per_second", "finish_reason",
    }  # fmt: skip
    assert body["request_id"] == response.headers["x-request-id"]
    assert body["prompt"] == "hi"
    assert body["generated_text"] == " ok"
    assert body["output_tokens"] == 2
    assert body["cached"] is False
    assert body["latency_ms"] > 0
    assert body["tokens_per_second"] > 0


async def test_a_hit_keeps_the_callers_prompt_and_id(make_client: MakeClient) -> None:
    cache = CacheInfo(outcome=CacheOutcome.EXACT, entry_id="e", age_seconds=3)
    client = await make_client(pipeline=ScriptedPipeline(END, cache=cache))
    answers = [(await client.post(GENERATE, json={"prompt": text})).json() for text in ("one", "two")]
    assert [answer["prompt"] for answer in answers] == ["one", "two"]
    assert all(answer["cached"] for answer in answers)
    assert answers[0]["request_id"] != answers[1]["request_id"]


async def test_an_instruct_model_reads_the_prompt_as_one_user_message(make_client: MakeClient) -> None:
    request = await request_made(make_client, {"prompt": "hi"})
    assert request.prompt_text == "<s>user\nhi</s>\n<s>assistant\n"
    assert request.user_text == "hi"


async def test_a_base_model_reads_the_prompt_as_it_stands(make_client: MakeClient) -> None:
    request = await request_made(make_client, {"prompt": "hi"}, chat=False)
    assert (request.prompt_text, request.user_text) == ("hi", "hi")


async def test_greedy_when_temperature_is_omitted(make_client: MakeClient) -> None:
    request = await request_made(make_client, {"prompt": "hi"})
    assert request.sampling.temperature == 0
    assert request.temperature_omitted
    hot = await request_made(make_client, {"prompt": "hi", "temperature": 0.8, "seed": 3})
    assert (hot.sampling.temperature, hot.sampling.seed) == (0.8, 3)


@pytest.mark.parametrize(("sent", "configured", "expected"), [(9, 30, 9), (None, 30, 30), (None, None, 256)])
async def test_each_request_has_its_own_max_new_tokens(
    make_client: MakeClient, sent: int | None, configured: int | None, expected: int
) -> None:
    hot = HotConfig(generation=GenerationConfig(max_tokens=configured))
    request = await request_made(make_client, {"prompt": "hi", "max_new_tokens": sent}, hot=hot)
    assert request.sampling.max_tokens == expected


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": 7}, "prompt"),
        ({"prompt": ["hi"]}, "prompt"),
        ({"prompt": "hi", "max_new_tokens": 0}, "max_new_tokens"),
        ({"prompt": "hi", "max_new_tokens": 5000}, "max_new_tokens"),
        ({"prompt": "x" * 3000}, "prompt"),
        ({"prompt": "hi", "stream": True}, "stream"),
        ({"prompt": "hi", "max_tokens": 4}, "max_tokens"),
        ({"prompt": "hi", "n": 2}, "n"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value)[:40],
)
async def test_what_is_wrong_is_said_with_the_fields_name(
    client: httpx.AsyncClient, body: dict[str, Any], param: str
) -> None:
    response = await client.post(GENERATE, json=body)
    assert response.status_code == 400
    assert error_of(response.json())["param"] == param
