from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

from bench.environment import Environment
from bench.load.figures import figures
from bench.load.k6 import Answer
from bench.load.matrix import Cell
from bench.load.outside import Opinion
from bench.load.page import page
from bench.load.record import Played, Session
from bench.load.scenarios import SCENARIOS, Scenario
from bench.load.session import write

HERE = Environment("a <processor>", 2, 23.5, "avx2", "3.11", {"torch": "2"}, "abc1234", 0.1)
ANSWERS = [
    Answer(
        0.1 * n, 0.5 + n, "finished", "exact" if n % 2 else "miss", "repeated" if n % 2 else "new", 8, n + 1
    )
    for n in range(30)
]
LOST = Answer(1.0, 0.01, "refused", "none", "new", 0, 20)


def session(answers: list[Answer], scenarios: Sequence[Scenario] = SCENARIOS[:1]) -> Session:
    """One with every part of a report; pictures take time, so there are few."""
    cells = [Cell("m", pattern, users, figures(ANSWERS)) for pattern in ("short", "long") for users in (1, 4)]
    opinion = Opinion("1.0", "guidellm run", {"requests, successful": 12.0})
    played = [Played(scenario, answers) for scenario in scenarios]
    models = [("m", "one", "random weights")]
    return Session(HERE, "k6 v1", 7, "today", 12.5, played, cells, models, opinion)


class Tags(HTMLParser):
    """Fails where an element is closed that is not open."""

    _VOID = frozenset({"meta", "path", "use", "image", "rect", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._VOID:
            assert self.open.pop() == tag


def test_the_page_stands_by_itself_and_is_well_formed() -> None:
    text = page(session(ANSWERS, SCENARIOS))
    tags = Tags()
    tags.feed(text)

    assert tags.open == []
    # Nothing is fetched from elsewhere: pictures and styles are inside.
    assert not re.search(r"(src|href)=[\"']https?:", text.replace("xlink:href", "href"))
    assert text.count("<svg") == len(SCENARIOS) + 3
    for scenario in SCENARIOS:
        assert scenario.what in text


def test_what_is_known_of_the_machine_is_text_not_markup() -> None:
    assert "a &lt;processor&gt;" in page(session(ANSWERS))


def test_percentiles_among_lost_requests_say_never() -> None:
    never = "<span class='bad'>never</span>"

    assert never not in page(session(ANSWERS))
    assert never in page(session([*ANSWERS, LOST, LOST, LOST]))


def test_a_missing_outside_tool_is_said_plainly() -> None:
    found = session(ANSWERS)
    found.opinion = Opinion("", "", {}, "guidellm is not installed here; `make guidellm` installs it.")

    assert "None: guidellm is not installed here" in page(found)


def test_a_run_without_matrix_and_opinion_is_a_page_too() -> None:
    found = Session(HERE, "k6 v1", 1, "today", played=[Played(SCENARIOS[0], [LOST])])

    assert "model sizes" not in page(found)


def test_the_json_has_what_is_needed_to_repeat_the_run(tmp_path: Path) -> None:
    kept, shown = write(session([*ANSWERS, LOST, LOST], SCENARIOS[:2]), tmp_path)
    document = json.loads(kept.read_text())

    assert shown.stat().st_size < 500_000
    assert document["environment"]["commit"] == "abc1234"
    assert document["seed"] == 7
    assert [one["name"] for one in document["scenarios"]] == [scenario.name for scenario in SCENARIOS[:2]]
    assert document["scenarios"][0]["p99"] is None  # never
    assert document["scenarios"][1]["kinds"]["new"]["outcomes"] == {"finished": 15, "refused": 2}
    assert {cell["users"] for cell in document["matrix"]} == {1, 4}
