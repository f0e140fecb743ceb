"""Requests to, and chunks from, an OpenAI-compatible server's completions route."""

from __future__ import annotations

from typing import Any

import pytest

from ferry_runtime.engine.protocol import FinishReason, GenerateRequest, SamplingParams
from ferry_runtime.engine.upstream_wire import (
    LOWEST_LOGPROB,
    UNKNOWN_TOKEN,
    ChunkReader,
    completion_body,
)
from ferry_runtime.errors import RequestFailed

VOCABULARY = {"a": 1, "b": 2, " c": 3}


def _request(**sampling: Any) -> GenerateRequest:
    return GenerateRequest(
        request_id="r", prompt_token_ids=(5, 6), sampling=SamplingParams(**{"max_tokens": 8, **sampling})
    )


def _reader(**sampling: Any) -> ChunkReader:
    return ChunkReader(_request(**sampling), VOCABULARY.get)


def _chunk(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, "finish_reason": finish, **more}]}


def test_a_plain_request_uses_openais_fields_only() -> None:
    body = completion_body(_request(temperature=0.5, seed=7, stop=("x",), logit_bias={3: -1.0}), "m", (5, 6))

    assert body == {
        "model": "m",
        "prompt": [5, 6],
        "max_tokens": 8,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "seed": 7,
        "stop": ["x"],
        "logit_bias": {"3": -1.0},
    }


@pytest.mark.parametrize(
    ("ours", "theirs", "value"),
    [
        ("top_k", "top_k", 5),
        ("min_p", "min_p", 0.1),
        ("repetition_penalty", "repetition_penalty", 1.1),
        ("min_tokens", "min_tokens", 2),
        ("ignore_eos", "ignore_eos", True),
        ("skip_special_tokens", "skip_special_tokens", False),
        ("include_stop_in_output", "include_stop_str_in_output", True),
    ],
)
def test_further_fields_are_sent_when_used(ours: str, theirs: str, value: object) -> None:
    assert theirs not in completion_body(_request(), "m", "text")
    assert completion_body(_request(**{ours: value}), "m", "text")[theirs] == value


def test_log_probabilities_of_the_prompt_are_refused() -> None:
    with pytest.raises(RequestFailed, match="upstream"):
        completion_body(_request(prompt_logprobs=1), "m", "text")


def test_every_chunk_counts_and_usage_has_the_last_word() -> None:
    reader = _reader()

    deltas = [
        reader.read(_chunk("a")),
        reader.read(_chunk("")),
        reader.read(_chunk("bcd")),
        reader.read(_chunk("", "stop", stop_reason="x")),
        reader.read({"choices": [], "usage": {"completion_tokens": 5}}),
    ]

    first, empty, second, waiting, last = deltas
    assert first is not None
    assert (first.text, first.token_ids) == ("a", (1,))
    assert empty is None
    assert second is not None
    assert second.token_ids == (UNKNOWN_TOKEN,)
    assert waiting is None
    assert last is not None
    assert (last.finish_reason, last.stop_reason) == (FinishReason.STOP, "x")
    assert sum(len(delta.token_ids) for delta in (first, second, last)) == 5
    assert reader.end() is None


def test_an_upstream_without_usage_ends_as_well() -> None:
    reader = _reader()
    reader.read(_chunk("a"))
    assert reader.read(_chunk("b", "length")) is None

    last = reader.end()

    assert last is not None
    assert (last.text, last.token_ids, last.finish_reason) == ("b", (2,), FinishReason.LENGTH)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("length", "length"), ("stop", "stop"), ("eos", "stop"), ("content_filter", "stop")],
)
def test_finish_reasons(theirs: str, ours: str) -> None:
    reader = _reader()
    reader.read(_chunk("a", theirs))

    last = reader.end()

    assert last is not None
    assert last.finish_reason == ours


def test_log_probabilities_make_one_entry_per_token() -> None:
    block = {
        "tokens": ["a", " c"],
        "token_logprobs": [-0.5, None],
        "top_logprobs": [{"a": -0.5, "z": -3.0}, None],
    }
    delta = _reader(logprobs=2).read(_chunk("a c", logprobs=block))

    assert delta is not None
    assert delta.token_ids == (1, 3)
    first, second = delta.logprobs
    assert (first.token.token_id, first.token.raw, first.token.logprob) == (1, b"a", -0.5)
    assert [(entry.token_id, entry.text) for entry in first.top] == [(1, "a"), (UNKNOWN_TOKEN, "z")]
    assert (second.token.logprob, second.top) == (LOWEST_LOGPROB, ())


def test_ids_that_the_upstream_gives_are_taken() -> None:
    delta = _reader().read(_chunk("xyz", token_ids=[7, 8]))

    assert delta is not None
    assert delta.token_ids == (7, 8)


def test_reused_prompt_tokens_are_passed_on() -> None:
    reader = _reader()
    reader.read(_chunk("a", "stop"))

    last = reader.read(
        {"choices": [], "usage": {"completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}}}
    )

    assert last is not None
    assert last.cached_prompt_tokens == 2


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": [3]},
        {"choices": [{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": []}}]},
        {"choices": [{"text": "a", "token_ids": ["x"]}]},
    ],
)
def test_nonsense_is_noticed(chunk: dict[str, Any]) -> None:
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        _reader().read(chunk)
