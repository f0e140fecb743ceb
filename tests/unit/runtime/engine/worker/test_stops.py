"""Stop strings never leak, however tokens cut the text."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ferry_runtime.engine.worker.stops import StopFilter

letters = st.text(alphabet="abc", max_size=30)
stop_lists = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), min_size=1, max_size=3)


def run(pieces: list[str], stops: list[str], *, include: bool = False) -> tuple[list[str], str | None]:
    stop_filter = StopFilter(stops, include_stop=include)
    shown = []
    for piece in pieces:
        shown.append(stop_filter.feed(piece))
        if stop_filter.matched is not None:
            return shown, stop_filter.matched
    return [*shown, stop_filter.flush()], None


def char_by_char(text: str, stops: list[str]) -> tuple[str, str | None]:
    """The definition: the longest stop string that the shortest possible prefix of text ends in."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            stop = max(found, key=len)
            return text[: end - len(stop)], stop
    return text, None


@settings(deadline=None)
@given(letters, stop_lists, st.lists(st.integers(1, 5), min_size=1))
@example("abc", ["b", "abc"], [3])
@example("aab", ["ab"], [1])
def test_the_cut_into_tokens_does_not_matter(text: str, stops: list[str], sizes: list[int]) -> None:
    pieces, position, turn = [], 0, 0
    while position < len(text):
        size = sizes[turn % len(sizes)]
        pieces.append(text[position : position + size])
        position, turn = position + size, turn + 1
    shown, matched = run(pieces, stops)
    assert ("".join(shown), matched) == char_by_char(text, stops)


@settings(deadline=None)
@given(letters, stop_lists)
def test_what_is_shown_is_never_taken_back(text: str, stops: list[str]) -> None:
    expected, _ = char_by_char(text, stops)
    shown = ""
    for part in run(list(text), stops)[0]:
        shown += part
        assert expected.startswith(shown)


def test_held_text_comes_at_the_end_when_the_stop_never_completes() -> None:
    shown, matched = run(["so xy", "zz"], ["xyzzy"])
    assert (shown, matched) == (["so ", "", "xyzz"], None)


def test_text_that_turned_out_harmless_is_shown_at_once() -> None:
    shown, _ = run(["xyz", "q"], ["xyzzy"])
    assert shown == ["", "xyzq", ""]


@pytest.mark.parametrize(("include", "expected"), [(False, "one "), (True, "one STOP")])
def test_the_stop_itself_is_shown_only_when_asked_for(include: bool, expected: str) -> None:
    shown, matched = run(["one ST", "OP two"], ["STOP"], include=include)
    assert ("".join(shown), matched) == (expected, "STOP")


def test_text_that_passed_by_is_no_part_of_a_match() -> None:
    stop_filter = StopFilter(["ab"])
    assert stop_filter.pass_by("xa") == "xa"
    assert stop_filter.feed("b") == "b"
    assert stop_filter.matched is None
