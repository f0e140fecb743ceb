"""Same question, same keys; anything that decides the answer, other keys."""

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferry_runtime.cache import identity as module
from ferry_runtime.cache.identity import Bypass, Identity, ServedModel, identify
from ferry_runtime.engine.protocol import SamplingParams
from ferry_runtime.generation import GenerationRequest

MODEL = ServedModel(name="m", weights="digest")


def keys(request: GenerationRequest, model: ServedModel = MODEL, **options: Any) -> Identity:
    found = identify(request, model, **({"embedder": "minilm"} | options))
    assert isinstance(found, Identity)
    return found


# Another value for every field, each of which alone must lead to another answer.
OTHER_SAMPLING: dict[str, Any] = {
    "max_tokens": 33, "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "repetition_penalty": 1.1,
    "presence_penalty": 0.2, "frequency_penalty": 0.3, "seed": 5, "stop": ("x",), "stop_token_ids": (4,),
    "include_stop_in_output": True, "logit_bias": {3: 1.0}, "logprobs": 2, "prompt_logprobs": 1,
    "min_tokens": 2, "ignore_eos": True, "skip_special_tokens": False,
}  # fmt: skip
OTHER_REQUEST: dict[str, Any] = {
    "tenant": "b", "prompt_token_ids": (1, 2), "n": 2, "context": '{"system":"Rhyme."}',
}  # fmt: skip
NOT_IDENTITY: dict[str, Any] = {
    "id": "other", "arrival": 1.0, "route": "/generate", "priority": 9, "timeout": 3.0,
    "queued_since": 2.0, "temperature_omitted": True, "cache_control": frozenset({"max-age=60"}),
    "cache_threshold": 0.99, "trace_headers": {"traceparent": "00-1-1-01"},
}  # fmt: skip


def test_the_lists_name_every_field_there_is() -> None:
    listed = module.REQUEST_IN | module.REQUEST_PARTITION | module.REQUEST_OUT
    assert {field.name for field in dataclasses.fields(GenerationRequest)} == listed
    assert set(SamplingParams.__struct_fields__) == module.SAMPLING_IN == set(OTHER_SAMPLING)
    assert set(OTHER_REQUEST) | {"sampling"} == module.REQUEST_IN
    assert set(NOT_IDENTITY) | {"unknown_fields"} == module.REQUEST_OUT


@pytest.mark.parametrize("name", OTHER_SAMPLING)
def test_another_sampling_parameter_is_another_request(make_request, name: str) -> None:
    drawn = {"temperature": 0.7}
    one = keys(make_request(sampling=drawn))
    other = keys(make_request(sampling=drawn | {name: OTHER_SAMPLING[name]}))
    assert one.exact != other.exact
    assert (one.partition != other.partition) == (name != "max_tokens")


@pytest.mark.parametrize("name", OTHER_REQUEST)
def test_another_request_field_is_another_request(make_request, name: str) -> None:
    one, other = keys(make_request()), keys(make_request(**{name: OTHER_REQUEST[name]}))
    assert one.exact != other.exact
    assert (one.partition != other.partition) == (name != "prompt_token_ids")


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(ServedModel)])
def test_another_model_is_another_request(make_request, field: str) -> None:
    request = make_request()
    one, other = keys(request), keys(request, dataclasses.replace(MODEL, **{field: "other"}))
    assert one.exact != other.exact
    assert one.partition != other.partition


@pytest.mark.parametrize("name", NOT_IDENTITY)
def test_how_an_answer_is_delivered_does_not_count(make_request, name: str) -> None:
    one, other = keys(make_request()), keys(make_request(**{name: NOT_IDENTITY[name]}))
    assert (one.exact, one.partition) == (other.exact, other.partition)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"temperature": 1}, {"temperature": 1.0}, id="whole numbers"),
        pytest.param({"presence_penalty": 0.0}, {"presence_penalty": -0.0}, id="zero"),
        pytest.param({"logit_bias": {1: 2, 3: 4.0}}, {"logit_bias": {3: 4, 1: 2.0}}, id="key order"),
        pytest.param({"stop_token_ids": (1, 2)}, {"stop_token_ids": (2, 1, 2)}, id="set of ids"),
        pytest.param({"seed": 1}, {"seed": None}, id="a seed without a draw"),
        pytest.param({"top_p": 0.5, "top_k": 3, "min_p": 0.2}, {}, id="filters without a draw"),
    ],
)  # fmt: skip
def test_equal_meaning_is_the_same_request(make_request, one: dict, other: dict) -> None:
    first, second = keys(make_request(sampling=one)), keys(make_request(sampling=other))
    assert (first.exact, first.partition) == (second.exact, second.partition)


def test_filters_count_where_reported_probabilities_may_show_them(make_request) -> None:
    one = keys(make_request(sampling={"logprobs": 3, "top_k": 2}))
    assert one.exact != keys(make_request(sampling={"logprobs": 3})).exact


def test_requests_that_differ_in_the_last_user_text_share_a_partition(make_request) -> None:
    one, other = keys(make_request("How do I reset it?")), keys(make_request("How can I reset it?"))
    assert one.exact != other.exact
    assert one.partition == other.partition is not None


def test_another_history_is_another_partition(make_request) -> None:
    plain = make_request("cancel it")
    talked = make_request("cancel it", prompt_text="<user>My gym.</user>" + plain.prompt_text)
    assert keys(plain).partition != keys(talked).partition


def test_a_shared_scope_leaves_the_tenant_out(make_request) -> None:
    a, b = make_request(tenant="a"), make_request(tenant="b")
    assert keys(a, shared=True).exact == keys(b, shared=True).exact != keys(a).exact


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"user_text": None}, id="token ids"),
        pytest.param({"user_text": "not in the prompt"}, id="text that the template changed"),
        pytest.param({"sampling": {"temperature": 1.0, "seed": 4}}, id="seeded draw"),
    ],
)
def test_without_a_comparable_text_there_is_no_partition(make_request, changes: dict) -> None:
    assert keys(make_request(**changes)).partition is None


def test_without_an_embedder_there_is_no_partition(make_request) -> None:
    assert keys(make_request(), embedder="").partition is None


def test_another_embedder_is_another_partition(make_request) -> None:
    assert keys(make_request()).partition != keys(make_request(), embedder="other").partition


def test_an_unknown_field_keeps_the_request_out(make_request) -> None:
    request = make_request(unknown_fields=frozenset({"top_n_sigma"}))
    assert identify(request, MODEL) == Bypass("unknown_field")


def test_a_sampling_field_that_nobody_listed_keeps_the_request_out(make_request, monkeypatch) -> None:
    monkeypatch.setattr(module, "_UNLISTED_SAMPLING", frozenset({"ignore_eos"}))
    assert identify(make_request(sampling={"ignore_eos": True}), MODEL) == Bypass("unknown_field")
    assert isinstance(identify(make_request(), MODEL), Identity)


def test_a_lone_surrogate_keeps_the_request_out(make_request) -> None:
    assert identify(make_request(context="\ud800"), MODEL) == Bypass("unencodable")


@given(
    st.lists(st.tuples(st.text(), st.text(), st.lists(st.integers(0, 9), max_size=4)), min_size=2, max_size=2)
)
def test_no_two_different_requests_collide(pair) -> None:
    base = GenerationRequest(
        id="r", arrival=0.0, tenant="", route="", prompt_token_ids=(), prompt_text="",
        sampling=SamplingParams(max_tokens=1),
    )  # fmt: skip
    made = [
        identify(
            dataclasses.replace(base, tenant=tenant, context=context, prompt_token_ids=tuple(ids)), MODEL
        )
        for tenant, context, ids in pair
    ]
    if all(isinstance(found, Identity) for found in made):
        assert (made[0].exact == made[1].exact) == (pair[0] == pair[1])


def test_the_entry_id_shows_nothing_but_a_digest(make_request) -> None:
    assert len(keys(make_request()).entry_id) == 32
    assert msgspec.json.decode(f'"{keys(make_request()).entry_id}"') == keys(make_request()).entry_id
