from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferry_api.names import is_valid_name, mended_name


@pytest.mark.parametrize("name", ["a", "smollm2", "llama-3-1-8b", "a" * 45, "redis", "runtime", "x-redis-y"])
def test_names_that_services_can_have_are_valid(name):
    assert is_valid_name(name)
    assert mended_name(name) == name


@pytest.mark.parametrize(
    ("name", "mended"),
    [
        ("llama-3.1-8b", "llama-3-1-8b"),
        ("3b-chat", "m-3b-chat"),
        ("Llama_3", "llama-3"),
        ("chat-redis", "chat"),
        ("chat-runtime", "chat"),
        ("chat-", "chat"),
        ("a" * 60, "a" * 45),
        ("a" * 44 + ".b", "a" * 44),
        ("-redis", "m"),
        ("org/model:tag", "org-model-tag"),
    ],
)
def test_other_names_are_refused_and_mended(name, mended):
    assert not is_valid_name(name)
    assert mended_name(name) == mended


@given(st.text(string.ascii_letters + string.digits + "-._/: ä", min_size=1, max_size=70))
def test_a_mended_name_is_always_valid(name):
    assert is_valid_name(mended_name(name))
