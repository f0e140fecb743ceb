"""What the API server's answers mean: whether the same call may succeed the next time."""

from __future__ import annotations

import json

import pytest

from ferry_operator.clients.api import _reason
from ferry_operator.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, api_error

_UNTYPED = "failed to create typed patch object (team/chat; apps/v1, Kind=Deployment): .spec: expected map"


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "bad", Invalid),
        (403, "no", Forbidden),
        (404, "gone", NotFound),
        (409, "Apply failed with 1 conflict", Conflict),
        (422, "invalid", Invalid),
        (429, "later", ApiError),
        (500, "failed calling webhook", ApiError),
        (500, _UNTYPED, Invalid),
        (503, "starting", ApiError),
    ],
)
def test_each_answer_has_its_error(status, message, kind):
    assert type(api_error("PATCH /x", status, "", message)) is kind


@pytest.mark.parametrize(
    ("message", "of_fields"),
    [
        ('Apply failed with 1 conflict: conflict with "kubectl": .data', True),
        ('Apply failed with 3 conflicts: conflicts with "kubectl":\n- .data', True),
        ('Operation cannot be fulfilled on secrets "a": the object has been modified', False),
        ('secrets "a" already exists', False),
        ("injected", False),
    ],
)
def test_a_conflict_over_fields_is_told_from_one_that_passes(message, of_fields):
    error = api_error("PATCH /x", 409, "Conflict", message)
    assert isinstance(error, Conflict)
    assert error.of_fields is of_fields


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"reason": "Conflict", "message": "a"}, ("Conflict", "a")),
        ({"message": "a"}, ("Unknown", "a")),
        ({"reason": "", "message": "a"}, ("Unknown", "a")),
        (["a"], ("Unknown", '["a"]')),
        ("a", ("Unknown", '"a"')),
    ],
    ids=str,
)
def test_an_answer_is_read_as_far_as_it_can_be(body, expected):
    assert _reason(json.dumps(body).encode()) == expected
