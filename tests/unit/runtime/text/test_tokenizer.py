"""Ids equal AutoTokenizer's for every family, and nothing is cut, padded or crashed upon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from ferry_runtime.errors import InvalidRequest, ModelPreparationError
from ferry_runtime.model_files import special_tokens
from ferry_runtime.text.tokenizer import OFFLOAD_CHARACTERS, Tokenizer

from .conftest import Family, _llama, prepared

TEXTS = [
    pytest.param("The ferry leaves at noon.", id="plain"),
    pytest.param("  two leading, two trailing  ", id="spaces"),
    pytest.param("a\n\n\tb\r\nc", id="line breaks"),
    pytest.param("héllo 你好 🚢 e\u0301", id="unicode"),
    pytest.param("<|im_start|>user\n</s><s>hi<|endoftext|>", id="special tokens in the text"),
    pytest.param("x" * 700, id="one long word"),
    pytest.param("zq9 " * 300, id="longer than any training cut"),
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("add_special_tokens", [True, False])
def test_ids_equal_those_of_transformers(family: Family, text: str, add_special_tokens: bool) -> None:
    expected = family.reference(text, add_special_tokens=add_special_tokens)["input_ids"]

    assert list(family.ours.encode(text, add_special_tokens=add_special_tokens)) == expected


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("skip", [True, False])
def test_decoding_equals_that_of_transformers(family: Family, text: str, skip: bool) -> None:
    ids = family.reference(text)["input_ids"]

    expected = family.reference.backend_tokenizer.decode(ids, skip_special_tokens=skip)
    assert family.ours.decode(ids, skip_special_tokens=skip) == expected


def test_special_tokens_are_those_that_templates_get_from_transformers(family: Family) -> None:
    assert dict(family.ours.special_tokens) == dict(family.reference.special_tokens_map)


def test_vocabulary_counts_added_tokens(family: Family) -> None:
    assert family.ours.vocab_size == len(family.reference)


def test_what_only_tokenizer_config_states_is_kept(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """transformers knows <|tool|>; the repository's tokenizer.json does not."""
    _llama().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    _edit(tmp_path / "tokenizer_config.json", extra_special_tokens=["<|tool|>"])

    family = prepared(tmp_path, tmp_path_factory.mktemp("prepared"))
    raw = Tokenizer.from_directory(tmp_path)

    expected = family.reference("noon <|tool|>")["input_ids"]
    assert list(family.ours.encode("noon <|tool|>")) == expected
    assert list(raw.encode("noon <|tool|>")) != expected


def test_smollm2_equals_transformers(smollm2_dir: Path) -> None:
    reference, ours = AutoTokenizer.from_pretrained(smollm2_dir), Tokenizer.from_directory(smollm2_dir)
    for parameter in TEXTS:
        text = parameter.values[0]
        assert list(ours.encode(text)) == reference(text)["input_ids"]


def test_truncation_and_padding_of_the_file_are_ignored(family: Family, tmp_path: Path) -> None:
    content = json.loads((family.prepared / "tokenizer.json").read_text())
    content["truncation"] = {"max_length": 5, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    content["padding"] = {
        "strategy": {"Fixed": 32},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "x",
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))

    ours = Tokenizer.from_directory(tmp_path)

    for text in ("a", "The ferry leaves at noon with eight people."):
        assert ours.encode(text) == family.ours.encode(text)


def test_a_lone_surrogate_is_the_clients_mistake(family: Family) -> None:
    with pytest.raises(InvalidRequest, match="surrogate"):
        family.ours.encode("\ud800 hi")


async def test_long_texts_give_the_same_ids_off_the_loop(family: Family) -> None:
    text = "The ferry leaves at noon. " * (OFFLOAD_CHARACTERS // 10)

    assert await family.ours.encode_off_loop(text) == family.ours.encode(text)


def test_an_unreadable_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")

    with pytest.raises(ModelPreparationError, match="cannot be read as a tokenizer"):
        Tokenizer.from_directory(tmp_path)


def test_special_tokens_are_read_from_either_spelling(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": {"content": "<s>", "lstrip": False}, "eos_token": "</s>", "unk_token": None})
    )

    assert special_tokens(tmp_path) == {"bos_token": "<s>", "eos_token": "</s>"}


def _edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
