from __future__ import annotations

import json
import math

import pytest
from bench.load.figures import Figures, by_kind, figures
from bench.load.k6 import Answer


def answer(
    seconds: float, outcome: str = "finished", cache: str = "miss", kind: str = "new", at: float = 0.0
) -> Answer:
    return Answer(at, seconds, outcome, cache, kind, 48 if outcome == "finished" else 0, 1)


@pytest.mark.parametrize("outcome", ["refused", "expired", "failed", "unfinished"])
def test_a_request_without_a_good_answer_waited_for_ever(outcome: str) -> None:
    found = figures([answer(0.001, outcome)] * 6 + [answer(1.0)] * 94)

    assert found.p50 == 1.0
    assert found.p95 == math.inf
    assert found.outcomes == {"finished": 94, outcome: 6}


def test_only_finished_requests_count_as_done() -> None:
    found = figures([answer(0.1, "refused"), answer(2.0), answer(2.0, at=2.0)])

    assert found.requests_per_second == 0.5


def test_tokens_from_the_cache_were_not_generated() -> None:
    found = figures(
        [answer(1.0), *(answer(1.0, cache=tier) for tier in ("exact", "semantic", "coalesced", "hit"))]
    )

    assert found.tokens_per_second == 48
    assert found.hits == 4


def test_kinds_are_told_apart() -> None:
    found = by_kind([answer(1.0, kind="new"), answer(0.1, kind="repeated"), answer(0.3, kind="repeated")])

    assert {kind: own.p95 for kind, own in found.items()} == {"new": 1.0, "repeated": 0.3}


def test_figures_survive_json_with_infinity() -> None:
    found = figures([answer(1.0, "refused"), answer(1.0)])

    text = json.dumps(found.as_json(), allow_nan=False)

    assert Figures.from_json(json.loads(text)) == found


def test_nothing_sent_has_no_figures() -> None:
    with pytest.raises(ValueError, match="no request"):
        figures([])
