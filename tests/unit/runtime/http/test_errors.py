from __future__ import annotations

import json

import pytest
from starlette.exceptions import HTTPException

from ferry_runtime import errors
from ferry_runtime.api.errors import Refusal, error_answer

from .support import error_of

SECRET = "the user's prompt"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.InvalidRequest("no", "top_p", "bad"), 400, "bad"),
        (Refusal(413, "too large", code="body_too_large"), 413, "body_too_large"),
        (errors.Overloaded("full", 1.2), 503, "overloaded"),
        (errors.Overloaded("full", 1.2, per_tenant=True), 429, "rate_limit_exceeded"),
        (errors.EngineNotReady("loading"), 503, "engine_not_ready"),
        (errors.ShuttingDown("draining"), 503, "engine_not_ready"),
        (errors.EngineDied(SECRET), 503, "engine_died"),
        (errors.EmbedderUnavailable("gone"), 503, "engine_not_ready"),
        (errors.DeadlineExceeded("late"), 504, "deadline_exceeded"),
        (errors.NotCached("no entry"), 504, "not_cached"),
        (errors.CannotFit(SECRET), 400, "context_length_exceeded"),
        (errors.RequestFailed(SECRET), 500, "request_failed"),
        (errors.ChatTemplateFailed("broken"), 500, "chat_template_failed"),
        (errors.StoreUnavailable(SECRET), 500, "internal_error"),
        (HTTPException(404, SECRET), 404, "unknown_url"),
        (HTTPException(405, SECRET, {"allow": "GET"}), 405, "method_not_allowed"),
        (HTTPException(418, SECRET), 418, None),
        (ValueError(SECRET), 500, "internal_error"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_every_error_has_a_status_and_openais_shape(error: Exception, status: int, code: str | None) -> None:
    answer = error_answer(error)
    assert answer.status == status
    detail = error_of(json.loads(answer.body))
    assert detail["code"] == code
    assert detail["type"] == ("invalid_request_error" if status < 429 else detail["type"])
    assert SECRET not in detail["message"]


def test_a_full_queue_says_when_to_come_back_in_whole_seconds() -> None:
    assert error_answer(errors.Overloaded("full", 1.2)).headers["retry-after"] == "2"
    assert error_answer(errors.Overloaded("full", 0.0)).headers["retry-after"] == "1"


@pytest.mark.parametrize("error", [errors.EngineNotReady("x"), errors.EngineDied("x")])
def test_a_missing_engine_says_when_to_come_back(error: Exception) -> None:
    assert int(error_answer(error).headers["retry-after"]) >= 1


def test_a_passed_deadline_must_not_be_retried() -> None:
    assert error_answer(errors.DeadlineExceeded("late")).headers["x-should-retry"] == "false"


def test_a_wrong_method_names_the_right_ones() -> None:
    assert error_answer(HTTPException(405, headers={"allow": "GET"})).headers["allow"] == "GET"
