"""A status changes only with what it says, and turning points are told once."""

from __future__ import annotations

from tests.unit.operator.samples import resource
from tests.unit.operator.status.test_conditions import deployment, pod

from ferry_api.validation import parse
from ferry_operator.observing.pods import Trouble
from ferry_operator.status.picture import Picture
from ferry_operator.status.write import events, invalid_status, status

_T0, _T1 = "2030-01-01T00:00:00Z", "2030-01-01T00:01:00Z"
_URL = "http://chat.team.svc.cluster.local"


def written(stored, now=_T0, problems=(), **runtime):
    seen = Picture(parse(stored), deployment(**runtime), None, (pod(ready=True),), (), tuple(problems))
    return status(seen, _URL, now)


def test_the_same_state_gives_the_same_status_later():
    stored = resource()
    stored["status"] = written(stored)
    assert written(stored, now=_T1) == stored["status"]


def test_only_a_changed_condition_gets_a_new_time():
    stored = resource()
    stored["status"] = written(stored)
    later = {c["type"]: c for c in written(stored, now=_T1, generation=9)["conditions"]}
    assert later["Ready"]["lastTransitionTime"] == _T1
    assert later["Available"]["lastTransitionTime"] == _T0


def test_a_turning_point_is_one_event_with_a_name_that_does_not_depend_on_the_clock():
    stored = resource()
    stored["status"] = written(stored)
    conflict = [Trouble("NameConflict", "Service chat")]
    first = events(stored, written(stored, _T1, conflict), _T1, "a")
    again = events(stored, written(stored, _T1, conflict), "2030-01-01T00:02:00Z", "b")
    assert [(e["type"], e["reason"]) for e in first] == [("Warning", "NameConflict")]
    assert [e["metadata"]["name"] for e in first] == [e["metadata"]["name"] for e in again]


def test_no_turning_point_no_event():
    stored = resource()
    stored["status"] = written(stored)
    assert events(stored, written(stored, _T1), _T1, "a") == []


def test_a_spec_that_cannot_be_read_keeps_what_was_said_of_the_pods():
    before = written(resource())
    found = invalid_status(before, 7, "spec.model.new: unknown", _T1)
    told = {c["type"]: (c["status"], c["reason"]) for c in found["conditions"]}
    assert len(told) == 6
    assert told["Available"] == ("True", "Serving")
    assert told["Stalled"] == ("True", "InvalidSpec")
    assert (found["observedGeneration"], found["url"]) == (7, _URL)


def test_a_spec_that_cannot_be_read_from_the_first_has_all_conditions():
    found = invalid_status({}, 1, "spec: unreadable", _T0)
    assert {c["type"]: c["status"] for c in found["conditions"]} == {
        "Available": "Unknown",
        "Ready": "False",
        "Progressing": "False",
        "Stalled": "True",
        "RuntimeReady": "Unknown",
        "CacheReady": "Unknown",
    }
