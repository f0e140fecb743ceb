from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from ferry_runtime.cache.identity import Identity, ServedModel, identify
from ferry_runtime.engine.protocol import Alternative, FinishReason, TokenLogprob

from .conftest import MakeClient
from .support import ScriptedPipeline, completion_body, delta, error_of

COMPLETIONS = "/v1/completions"


async def test_an_answer_has_openais_fields(client: httpx.AsyncClient) -> None:
    body = (await client.post(COMPLETIONS, json=completion_body())).json()
    assert body["id"].startswith("cmpl-")
    assert body["object"] == "text_completion"
    (choice,) = body["choices"]
    assert set(choice) >= {"index", "text", "logprobs", "finish_reason"}
    assert body["usage"]["prompt_tokens"] == len("The sky is")


@pytest.mark.parametrize(
    ("prompt", "tokens", "choices"),
    [
        ("abc", 3, 1),
        (["abc", "de"], 5, 2),
        ([70, 71], 2, 1),
        ([[70, 71], [72]], 3, 2),
    ],
    ids=["text", "texts", "ids", "lists of ids"],
)
async def test_every_form_of_prompt_is_answered_in_order(
    client: httpx.AsyncClient, prompt: Any, tokens: int, choices: int
) -> None:
    body = (await client.post(COMPLETIONS, json=completion_body(prompt=prompt, n=2))).json()
    assert [choice["index"] for choice in body["choices"]] == list(range(2 * choices))
    assert body["usage"]["prompt_tokens"] == tokens
    assert body["usage"]["completion_tokens"] == 2 * choices * 5


@pytest.mark.parametrize(
    "prompt", ["", [], [""], [[]], ["a", 1], [1, "a"], [[1], "a"], [[1], 2], {"a": 1}, 7, ["a"] * 129, None],
    ids=lambda value: json.dumps(value)[:20],
)  # fmt: skip
async def test_prompts_that_are_none_are_refused(client: httpx.AsyncClient, prompt: Any) -> None:
    response = await client.post(COMPLETIONS, json=completion_body(prompt=prompt))
    assert response.status_code == 400
    assert error_of(response.json())["param"] == "prompt"


async def test_an_omitted_max_tokens_is_sixteen(client: httpx.AsyncClient) -> None:
    body = completion_body(max_tokens=None, ignore_eos=True)
    assert (await client.post(COMPLETIONS, json=body)).json()["usage"]["completion_tokens"] == 16


async def test_echo_puts_the_prompt_in_front(client: httpx.AsyncClient) -> None:
    plain = (await client.post(COMPLETIONS, json=completion_body(temperature=0))).json()
    echoed = (await client.post(COMPLETIONS, json=completion_body(temperature=0, echo=True))).json()
    assert echoed["choices"][0]["text"] == "The sky is" + plain["choices"][0]["text"]
    ids = (await client.post(COMPLETIONS, json=completion_body(prompt=[74, 75], echo=True))).json()
    assert ids["choices"][0]["text"].startswith("hi")


async def test_echo_alone_scores_the_prompt(client: httpx.AsyncClient) -> None:
    body = completion_body(prompt="abc", max_tokens=0, echo=True, logprobs=1)
    answer = (await client.post(COMPLETIONS, json=body)).json()
    (choice,) = answer["choices"]
    assert choice["text"] == "abc"
    assert choice["finish_reason"] == "length"
    assert choice["logprobs"]["token_logprobs"][0] is None
    assert len(choice["logprobs"]["tokens"]) == 3
    assert answer["usage"]["completion_tokens"] == 0
    assert answer["usage"]["total_tokens"] == 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"best_of": 21}, "best_of"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"suffix": "x"}, "suffix"),
        ({"prompt": ["a"] * 100, "n": 100}, "n"),
        ({"messages": [], "prompt": None}, "prompt"),
        ({"max_completion_tokens": 3}, "max_completion_tokens"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
async def test_what_is_wrong_is_said_with_the_fields_name(
    client: httpx.AsyncClient, fields: dict[str, Any], param: str
) -> None:
    response = await client.post(COMPLETIONS, json=completion_body(**fields))
    assert response.status_code == 400, response.text
    assert error_of(response.json())["param"] == param


def scored(text: str, logprob: float) -> TokenLogprob:
    return TokenLogprob(Alternative(7, text, text.encode(), logprob))


async def test_greedy_candidates_are_all_the_same_and_not_generated(client: httpx.AsyncClient) -> None:
    answer = (await client.post(COMPLETIONS, json=completion_body(best_of=4, temperature=0))).json()
    assert answer["usage"]["completion_tokens"] == 5


async def test_best_of_keeps_the_likeliest_per_token(make_client: MakeClient) -> None:
    scores = {0: [-1.0], 1: [-0.6, -0.6, -0.6], 2: [-0.2], 3: [-9999.0]}
    script = [
        delta(index, text=str(index), token_ids=(7,) * len(values), finish_reason=FinishReason.STOP,
              logprobs=tuple(scored("x", value) for value in values))
        for index, values in scores.items()
    ]  # fmt: skip
    pipeline = ScriptedPipeline(script)
    client = await make_client(pipeline=pipeline)
    answer = (await client.post(COMPLETIONS, json=completion_body(n=2, best_of=4))).json()
    assert [choice["text"] for choice in answer["choices"]] == ["2", "1"]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert all(choice["logprobs"] is None for choice in answer["choices"])
    assert pipeline.requests[0].n == 4
    assert pipeline.requests[0].sampling.logprobs == 0
    assert answer["usage"]["completion_tokens"] == 6


async def test_a_prompt_without_special_tokens_is_another_one_to_the_semantic_cache_too(
    make_client: MakeClient,
) -> None:
    """The text is the same: only the tokens differ, which the semantic tier does not compare."""
    pipeline = ScriptedPipeline([delta(text="ok", token_ids=(7,), finish_reason=FinishReason.STOP)])
    client = await make_client(pipeline=pipeline)
    for special in (None, True, False):
        body = completion_body(add_special_tokens=special)
        assert (await client.post(COMPLETIONS, json=body)).status_code == 200
    found = [
        identify(request, ServedModel(name="m", weights="w"), embedder="e") for request in pipeline.requests
    ]
    omitted, wanted, without = [item.partition for item in found if isinstance(item, Identity)]
    assert omitted == wanted != without
    assert None not in (omitted, without)
