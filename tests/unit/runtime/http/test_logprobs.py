from __future__ import annotations

import json
import threading
from typing import Any

import httpx
import msgspec
import pytest

from ferry_runtime.api.logprobs import CompletionLogprobsBuilder, chat_logprobs, joined
from ferry_runtime.api.schemas.answers import ChatCompletion, Completion
from ferry_runtime.engine.protocol import Alternative, FinishReason, TokenLogprob

from .conftest import MakeClient
from .support import ScriptedPipeline, chat_body, completion_body, delta, events_of

SMILE = "😀".encode()


def entry(raw: bytes, logprob: float = -0.5, *top: tuple[bytes, float]) -> TokenLogprob:
    def alternative(raw: bytes, logprob: float) -> Alternative:
        return Alternative(1, raw.decode(errors="replace"), raw, logprob)

    return TokenLogprob(alternative(raw, logprob), tuple(alternative(*item) for item in top))


def test_a_chat_entry_has_text_bytes_and_alternatives() -> None:
    (content,) = chat_logprobs([entry(b"hi", -0.5, (b"hi", -0.5), (b"\xf0", -9999.0))]).content
    assert (content.token, content.logprob, content.bytes) == ("hi", -0.5, [104, 105])
    assert [(top.token, top.bytes, top.logprob) for top in content.top_logprobs] == [
        ("hi", [104, 105], -0.5),
        ("\ufffd", [0xF0], -9999.0),
    ]


def test_offsets_count_characters_even_inside_one() -> None:
    entries = [entry(b"a"), entry(SMILE[:2]), entry(SMILE[2:]), entry("é".encode()), entry(b"b")]
    assert CompletionLogprobsBuilder().generated(entries).text_offset == [0, 1, 1, 2, 3]


def test_a_builder_goes_on_where_the_last_piece_ended() -> None:
    entries = [entry(b"ab"), entry(SMILE[:3]), entry(SMILE[3:]), entry(b"c")]
    whole = CompletionLogprobsBuilder().generated(entries)
    builder = CompletionLogprobsBuilder()
    pieces = joined(builder.generated(entries[:2]), builder.generated(entries[2:]))
    assert pieces == whole


def test_tokens_that_are_no_text_keep_different_names() -> None:
    shape = CompletionLogprobsBuilder().generated([entry(b"\xf0\x9f", -1.0, (b"\xf0\x9e", -2.0))])
    assert shape.tokens == ["bytes:\\xf0\\x9f"]
    assert shape.top_logprobs == [{"bytes:\\xf0\\x9e": -2.0, "bytes:\\xf0\\x9f": -1.0}]


def test_the_first_token_of_a_prompt_has_no_logprob() -> None:
    shape = CompletionLogprobsBuilder().prompt([entry(b"a", 0.0), entry(b"b", -1.0)])
    assert shape.token_logprobs == [None, -1.0]
    assert shape.top_logprobs == [None, {"b": -1.0}]


@pytest.mark.parametrize("stream", [False, True])
async def test_impossible_tokens_stay_finite_in_json(make_client: MakeClient, stream: bool) -> None:
    script = [
        delta(text="a", token_ids=(7,), logprobs=(entry(b"a", -9999.0, (b"b", -9999.0)),)),
        delta(token_ids=(2,), finish_reason=FinishReason.STOP),
    ]
    client = await make_client(pipeline=ScriptedPipeline(script))
    for path, body in (
        ("/v1/chat/completions", chat_body(logprobs=True, top_logprobs=20, stream=stream)),
        ("/v1/completions", completion_body(logprobs=5, stream=stream)),
    ):
        response = await client.post(path, json=body)
        assert response.status_code == 200
        assert "-9999.0" in response.text
        assert not any(word in response.text for word in ("NaN", "Infinity"))


async def test_a_chunk_of_several_tokens_gives_each_its_own_alternatives(make_client: MakeClient) -> None:
    entries = [entry(SMILE[:2], -0.1, (b"x", -3.0)), entry(SMILE[2:], -0.2, (b"y", -4.0)), entry(b"!", -0.3)]
    script = [
        delta(token_ids=(7,)),
        delta(text="😀", token_ids=(8,), logprobs=tuple(entries[:2])),
        delta(text="!", token_ids=(9,), logprobs=(entries[2],)),
        delta(token_ids=(2,), finish_reason=FinishReason.STOP),
    ]
    client = await make_client(pipeline=ScriptedPipeline(script))

    async def content_of(body: dict[str, Any]) -> list[Any]:
        response = await client.post("/v1/chat/completions", json=body)
        if not body.get("stream"):
            return list(response.json()["choices"][0]["logprobs"]["content"])
        chunks = [json.loads(event) for event in events_of(response.text)[:-1]]
        choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["logprobs"]]
        return [item for choice in choices for item in choice["logprobs"]["content"]]

    body = chat_body(logprobs=True, top_logprobs=2)
    whole = await content_of(body)
    assert len(whole) == 3
    assert [item["top_logprobs"][0]["token"] for item in whole[:2]] == ["x", "y"]
    assert bytes(byte for item in whole for byte in item["bytes"]).decode() == "😀!"
    assert await content_of(body | {"stream": True}) == whole


async def test_completion_pieces_add_up_to_the_whole(client: httpx.AsyncClient) -> None:
    body = completion_body(prompt="ab", echo=True, logprobs=2, temperature=0)
    whole = (await client.post("/v1/completions", json=body)).json()["choices"][0]["logprobs"]
    response = await client.post("/v1/completions", json=body | {"stream": True})
    pieces = [json.loads(event)["choices"][0]["logprobs"] for event in events_of(response.text)[:-1]]
    for name in ("text_offset", "token_logprobs", "tokens", "top_logprobs"):
        assert [item for piece in pieces if piece for item in piece[name]] == whole[name]
    assert whole["token_logprobs"][0] is None
    assert len(whole["tokens"]) == 2 + 5


@pytest.mark.parametrize(("many", "off_loop"), [(200, True), (1, False)], ids=["many", "few"])
@pytest.mark.parametrize("route", ["chat", "completions"])
async def test_many_log_probabilities_are_rendered_outside_of_the_event_loop(
    route: str, many: int, off_loop: bool, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    encode = msgspec.json.encode

    def seen(value: object, **options: Any) -> bytes:
        if isinstance(value, ChatCompletion | Completion):
            threads.append(threading.current_thread())
        return encode(value, **options)

    entries = [entry(b"a", -1.0, (b"a", -1.0), (b"b", -2.0), (b"c", -3.0))] * many
    script = [
        delta(text="a" * many, token_ids=(7,) * many, logprobs=tuple(entries)),
        delta(token_ids=(2,), finish_reason=FinishReason.STOP),
    ]
    client = await make_client(pipeline=ScriptedPipeline(script))
    monkeypatch.setattr(msgspec.json, "encode", seen)
    if route == "chat":
        answer = await client.post("/v1/chat/completions", json=chat_body(logprobs=True, top_logprobs=3))
    else:
        answer = await client.post("/v1/completions", json=completion_body(logprobs=3))
    assert answer.status_code == 200
    assert threads
    assert (threading.main_thread() not in threads) is off_loop
