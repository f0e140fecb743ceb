"""What counts as a failed request, and what the table says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from e2e.harness.place import expect_no_failure
from e2e.harness.table import Table
from e2e.harness.traffic import KINDS, Outcome, Record

_GOOD = Outcome("kept", at=1, seconds=0.1, status=200, text="model-a pod-1 word0")
_REFUSED = Outcome("new", at=2, seconds=0.1, status=503)
_UNANSWERED = Outcome("new", at=3, seconds=0.1, status=0, error="ConnectError")
_CUT = Outcome("stream", at=4, seconds=0.1, status=200, error="the stream ended without its end")


@pytest.mark.parametrize("outcome", [_REFUSED, _UNANSWERED, _CUT])
def test_whatever_is_not_a_whole_answer_has_failed(outcome):
    record = Record((_GOOD, outcome))
    assert record.failures == [outcome]
    with pytest.raises(AssertionError):
        expect_no_failure(record)


@pytest.mark.parametrize("kinds", [(), ("kept",), ("kept", "new"), ("new", "stream")])
def test_a_record_that_lacks_a_kind_of_client_proves_nothing(kinds):
    with pytest.raises(AssertionError):
        expect_no_failure(Record(tuple(replace(_GOOD, kind=kind) for kind in kinds)))


def test_a_record_of_all_kinds_without_a_failure_is_what_is_wanted():
    expect_no_failure(Record(tuple(replace(_GOOD, kind=kind) for kind in KINDS)))


def test_answers_are_counted_by_model_and_pod():
    assert Record((_GOOD, _GOOD, _REFUSED)).answers() == {"model-a pod-1": 2}


def test_the_table_adds_up_what_a_scenario_sent():
    table = Table()
    table.add("update", Record((_GOOD, _REFUSED)))
    table.add("update", Record((_GOOD,)))
    assert (table.row("update").sent, table.row("update").failed) == (3, 1)
    assert "update" in table.lines()[-1]
