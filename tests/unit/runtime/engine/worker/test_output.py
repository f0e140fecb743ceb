"""Deltas: what is shown, how it ends, and which log-probabilities go with it."""

from typing import Any

import pytest

from ferry_runtime.engine.protocol import (
    Alternative,
    Delta,
    FinishReason,
    GenerateRequest,
    SamplingParams,
    TokenLogprob,
)
from ferry_runtime.engine.worker.output import Output

from .kinds import Kind


class Run:
    """An Output fed until it ends."""

    def __init__(self, kind: Kind, ids: list[int], **sampling: Any) -> None:
        params = SamplingParams(**{"max_tokens": len(ids), **sampling})
        prompt = tuple(kind.ids("a"))
        request = GenerateRequest(request_id="r", prompt_token_ids=prompt, sampling=params)
        output = Output(request, kind.vocabulary, frozenset({kind.id("<|end|>")}))
        self.deltas: list[Delta] = []
        for rank, token_id in enumerate(ids):
            entry = TokenLogprob(Alternative(token_id, "", b"", -float(rank)))
            self.deltas.append(output.add(token_id, None if params.logprobs is None else entry))
            if self.deltas[-1].finish_reason is not None:
                break

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)

    @property
    def end(self) -> tuple[FinishReason | None, str | int | None]:
        return self.deltas[-1].finish_reason, self.deltas[-1].stop_reason

    @property
    def token_ids(self) -> list[int]:
        return [token_id for delta in self.deltas for token_id in delta.token_ids]

    @property
    def entries(self) -> list[int]:
        return [entry.token.token_id for delta in self.deltas for entry in delta.logprobs]


@pytest.fixture
def end(byte_kind: Kind) -> int:
    return byte_kind.id("<|end|>")


@pytest.mark.parametrize(
    ("extra", "reason"), [(0, FinishReason.STOP), (-1, FinishReason.LENGTH), (1, FinishReason.STOP)]
)
def test_a_stop_string_on_the_last_allowed_token_wins_over_the_cap(
    byte_kind: Kind, extra: int, reason: FinishReason
) -> None:
    ids = byte_kind.ids("one xyzzy two")
    completes = next(n for n in range(1, len(ids)) if "xyzzy" in byte_kind.decode(ids[:n]))
    run = Run(byte_kind, ids, stop=("xyzzy",), max_tokens=completes + extra)
    assert run.end[0] is reason
    assert "one xyzzy".startswith(run.text)
    assert ("xyzzy" in run.text) is False
    assert len(run.token_ids) == completes + min(extra, 0)


@pytest.mark.parametrize(
    ("extra", "reason"), [(0, FinishReason.STOP), (-1, FinishReason.LENGTH), (1, FinishReason.STOP)]
)
def test_an_end_of_sequence_on_the_last_allowed_token_wins_over_the_cap(
    byte_kind: Kind, end: int, extra: int, reason: FinishReason
) -> None:
    ids = byte_kind.ids("one two")
    run = Run(byte_kind, [*ids, end, *ids], max_tokens=len(ids) + 1 + extra)
    assert run.end == (reason, None)
    assert len(run.token_ids) == len(ids) + 1 + min(extra, 0)


def test_the_end_of_sequence_is_counted_but_has_no_log_probability(byte_kind: Kind, end: int) -> None:
    ids = byte_kind.ids("one two")
    run = Run(byte_kind, [*ids, end], logprobs=0)
    assert run.token_ids == [*ids, end]
    assert run.entries == ids
    assert run.text == "one two"


def test_ignored_the_end_of_sequence_is_a_token_like_others(byte_kind: Kind, end: int) -> None:
    ids = [*byte_kind.ids("one"), end, *byte_kind.ids(" two")]
    run = Run(byte_kind, ids, ignore_eos=True, logprobs=0)
    assert (run.text, run.end, run.entries) == ("one two", (FinishReason.LENGTH, None), ids)


@pytest.mark.parametrize(("include", "text"), [(False, "a"), (True, "ab")])
def test_a_stop_token_is_named_and_shown_only_when_asked_for(
    byte_kind: Kind, include: bool, text: str
) -> None:
    ids = [*byte_kind.ids("a"), *byte_kind.ids("b")]
    run = Run(byte_kind, [*ids, *ids], stop_token_ids=(ids[-1],), include_stop_in_output=include, logprobs=0)
    assert run.end == (FinishReason.STOP, ids[-1])
    assert run.text == text
    assert run.entries == (ids if include else ids[:-1])


def test_nothing_stops_before_min_tokens(byte_kind: Kind, end: int) -> None:
    ids = byte_kind.ids("stop stop stop")
    count = len(byte_kind.ids("stop stop"))
    run = Run(byte_kind, [*ids, end], stop=("stop",), min_tokens=count)
    assert run.text == "stop stop "
    assert run.end == (FinishReason.STOP, "stop")


def test_a_held_beginning_of_a_stop_string_is_shown_at_the_end(byte_kind: Kind) -> None:
    run = Run(byte_kind, byte_kind.ids("so xyzz"), stop=("xyzzy",))
    assert (run.text, run.end) == ("so xyzz", (FinishReason.LENGTH, None))


def test_half_a_character_at_the_cap_is_shown_as_the_whole_decodes(byte_kind: Kind) -> None:
    ids = byte_kind.ids("ok 水")[:-1]
    assert Run(byte_kind, ids).text == byte_kind.decode(ids)


@pytest.mark.parametrize("text", ["😀😃😄 xyz and xyzz", "so xyzzy", "水し船 xy"])
@pytest.mark.parametrize("stop", [(), ("xyzzy",)])
def test_each_token_has_its_own_entry_once_and_in_order(
    byte_kind: Kind, text: str, stop: tuple[str, ...]
) -> None:
    run = Run(byte_kind, byte_kind.ids(text), stop=stop, logprobs=2)
    assert run.entries == run.token_ids


def test_entries_do_not_run_ahead_of_held_text(byte_kind: Kind) -> None:
    run = Run(byte_kind, byte_kind.ids("so xyzzy"), stop=("xyzzy",), logprobs=0)
    shown, text = 0, ""
    for delta in run.deltas[:-1]:
        shown += len(delta.logprobs)
        text += delta.text
        assert byte_kind.decode(run.token_ids[:shown]) == text[: len(byte_kind.decode(run.token_ids[:shown]))]


def test_every_step_counts_its_token_even_while_text_is_held(byte_kind: Kind) -> None:
    run = Run(byte_kind, byte_kind.ids("水し船"))
    assert all(len(delta.token_ids) == 1 for delta in run.deltas)
    assert any(delta.text == "" for delta in run.deltas)
