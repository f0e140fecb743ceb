"""Text made token by token equals the tokenizer's own decoding of the whole."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .kinds import CORPUS, Kind

# The fixtures are read-only, so sharing them between examples is sound.
shared_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

TEXTS = [*CORPUS, " leading space", "😀", "a\u200db", "👩‍👩‍👧 family", "\u00e9\u0301"]


def spell(kind: Kind, prompt: list[int], ids: list[int], *, skip: bool = True) -> list[str]:
    decoder = kind.vocabulary.detokenizer(prompt, skip_special=skip)
    return [*(decoder.feed(token_id) for token_id in ids), decoder.flush()]


@pytest.mark.parametrize("text", TEXTS)
def test_the_answer_continues_the_prompt(kind: Kind, text: str) -> None:
    prompt, ids = kind.ids("The ferry"), kind.ids(text)
    whole = kind.decode(prompt + ids)
    assert kind.decode(prompt) + "".join(spell(kind, prompt, ids)) == whole


@pytest.mark.parametrize("text", TEXTS)
def test_without_text_in_the_prompt_it_equals_decoding_the_answer(kind: Kind, text: str) -> None:
    prompt, ids = [kind.id("<|start|>")], kind.ids(text)
    assert "".join(spell(kind, prompt, ids)) == kind.decode(ids)


@pytest.mark.parametrize("text", TEXTS)
def test_no_character_is_cut(kind: Kind, text: str) -> None:
    parts = spell(kind, kind.ids("a"), kind.ids(text))
    assert not any("\ufffd" in part for part in parts)


@shared_fixture
@given(data=st.data(), skip=st.booleans())
def test_any_ids_of_a_byte_level_vocabulary_decode_as_the_whole(
    byte_kind: Kind, data: st.DataObject, skip: bool
) -> None:
    ids = data.draw(st.lists(st.integers(0, byte_kind.size + 5), max_size=30))
    assert "".join(spell(byte_kind, [], ids, skip=skip)) == byte_kind.decode(ids, skip=skip)


@shared_fixture
@given(data=st.data(), skip=st.booleans())
def test_any_whole_characters_of_a_piece_vocabulary_decode_as_the_whole(
    piece_kind: Kind, data: st.DataObject, skip: bool
) -> None:
    character = st.characters(codec="utf-8").map(
        lambda c: [piece_kind.id(f"<0x{b:02X}>") for b in c.encode()]
    )
    token = st.integers(0, piece_kind.size + 5).filter(lambda i: piece_kind.vocabulary.byte(i) is None)
    groups = data.draw(st.lists(character | token.map(lambda i: [i]), max_size=15))
    ids = [token_id for group in groups for token_id in group]
    assert "".join(spell(piece_kind, [], ids, skip=skip)) == piece_kind.decode(ids, skip=skip)


def test_bytes_that_never_become_a_character_give_one_replacement_each(piece_kind: Kind) -> None:
    ids = [piece_kind.id("<0xE2>"), piece_kind.id("<0x82>"), piece_kind.id("y")]
    assert spell(piece_kind, [], ids) == ["", "", "\ufffd\ufffdy", ""]
    assert piece_kind.decode(ids) == "\ufffd\ufffdy"


def test_half_a_character_at_the_end_is_flushed_as_the_whole_decodes(byte_kind: Kind) -> None:
    ids = byte_kind.ids("ok 水")[:-1]
    parts = spell(byte_kind, [], ids)
    assert parts[-1] == "\ufffd"
    assert "".join(parts) == byte_kind.decode(ids)


def test_a_character_that_the_prompt_began_is_completed(byte_kind: Kind) -> None:
    ids = byte_kind.ids("水し")
    first = next(n for n in range(1, len(ids)) if byte_kind.decode(ids[:n]).endswith("\ufffd"))
    assert "".join(spell(byte_kind, ids[:first], ids[first:])) == "水し"


def test_special_tokens_show_only_when_asked_for(kind: Kind) -> None:
    ids = [*kind.ids("y"), kind.id("<|end|>"), kind.id("<tool>")]
    prompt = kind.ids("a")
    assert "<|end|>" not in "".join(spell(kind, prompt, ids))
    assert "<|end|>" in "".join(spell(kind, prompt, ids, skip=False))
    assert "<tool>" in "".join(spell(kind, prompt, ids))


def test_a_byte_level_tokens_bytes_are_exact(byte_kind: Kind) -> None:
    ids = byte_kind.ids(CORPUS[1])
    assert b"".join(byte_kind.vocabulary.raw(token_id) for token_id in ids) == CORPUS[1].encode()


def test_a_fallback_tokens_byte_is_exact(piece_kind: Kind) -> None:
    assert piece_kind.vocabulary.raw(piece_kind.id("<0xE2>")) == b"\xe2"
    assert piece_kind.vocabulary.raw(piece_kind.id("▁ferry")) == b" ferry"
    assert piece_kind.vocabulary.text(piece_kind.id("<0xE2>")) == "\ufffd"


def test_an_id_without_a_token_stands_for_nothing(kind: Kind) -> None:
    assert kind.vocabulary.raw(kind.size + 1000) == b""
    assert spell(kind, [], [kind.size + 1000]) == ["", ""]
