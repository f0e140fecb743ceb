"""A prepared directory's text side."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ferry_runtime.errors import InvalidRequest
from ferry_runtime.text.model import TextModel

from .conftest import Family

TEMPLATE = "{{ bos_token or '' }}{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture
def directory(family: Family, tmp_path: Path) -> Path:
    target = tmp_path / "model"
    shutil.copytree(family.prepared, target)
    (target / "config.json").write_text(
        json.dumps({"vocab_size": 512, "max_position_embeddings": 64, "eos_token_id": 7})
    )
    return target


async def test_a_base_model_refuses_messages_and_says_what_to_use(directory: Path) -> None:
    model = TextModel.load(directory)

    assert model.chat_template is None
    with pytest.raises(InvalidRequest, match="/v1/completions"):
        await model.encode_chat([{"role": "user", "content": "hi"}])


async def test_a_chat_is_encoded_without_a_second_begin_token(directory: Path, family: Family) -> None:
    (directory / "chat_template.jinja").write_text(TEMPLATE)
    model = TextModel.load(directory)

    encoded = await model.encode_chat([{"role": "user", "content": "The ferry"}])

    family.reference.chat_template = TEMPLATE
    expected = family.reference.apply_chat_template(
        [{"role": "user", "content": "The ferry"}], return_dict=False
    )
    assert list(encoded.token_ids) == expected
    assert encoded.text.endswith("The ferry")


async def test_a_long_conversation_gives_the_same_off_the_loop(directory: Path) -> None:
    (directory / "chat_template.jinja").write_text(TEMPLATE)
    model = TextModel.load(directory)
    words = "The ferry leaves at noon. " * 400

    encoded = await model.encode_chat([{"role": "user", "content": words}])

    assert encoded.token_ids == model.tokenizer.encode(encoded.text, add_special_tokens=False)


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        pytest.param(None, (7,), id="config.json"),
        pytest.param({"eos_token_id": [3, 4]}, (3, 4), id="generation_config.json wins"),
        pytest.param({}, (7,), id="generation_config.json is silent"),
    ],
)
def test_end_tokens(directory: Path, generation: dict[str, object] | None, expected: tuple[int, ...]) -> None:
    if generation is not None:
        (directory / "generation_config.json").write_text(json.dumps(generation))

    assert TextModel.load(directory).eos_token_ids == expected


def test_bounds_come_from_the_models_configuration(directory: Path) -> None:
    model = TextModel.load(directory)

    assert (model.vocab_size, model.context_length) == (512, 64)
