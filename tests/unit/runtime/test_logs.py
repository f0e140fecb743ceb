"""Log lines machines can read, with the server's own request ids."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest

from ferry_runtime.errors import ConfigurationError
from ferry_runtime.logs import bind_request, set_up_logging

logger = logging.getLogger("ferry_runtime.test")


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)


def _lines(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_each_record_is_one_json_object() -> None:
    out = io.StringIO()
    set_up_logging({}, out)

    logger.warning("served\nin two lines", extra={"route": "/generate", "status": 200})

    (line,) = _lines(out)
    assert line["level"] == "warning"
    assert line["message"] == "served\nin two lines"
    assert (line["route"], line["status"]) == ("/generate", 200)
    assert "request_id" not in line


def test_a_bound_request_marks_its_own_records_only() -> None:
    out = io.StringIO()
    set_up_logging({}, out)

    async def serve(request_id: str) -> None:
        with bind_request(request_id):
            await asyncio.sleep(0)
            logger.info("served")

    async def both() -> None:
        await asyncio.gather(serve("req-1"), serve("req-2"))
        logger.info("idle")

    asyncio.run(both())

    assert [line.get("request_id") for line in _lines(out)] == ["req-1", "req-2", None]


def test_an_exception_is_part_of_its_line() -> None:
    out = io.StringIO()
    set_up_logging({}, out)

    try:
        raise KeyError("x")
    except KeyError:
        logger.exception("failed")

    (line,) = _lines(out)
    assert "KeyError" in str(line["error"])


def test_unencodable_text_cannot_break_a_line() -> None:
    out = io.StringIO()
    set_up_logging({}, out)

    logger.info("lone \ud800", extra={"what": object()})

    assert _lines(out)[0]["message"] == "lone \ud800"


def test_text_for_people() -> None:
    out = io.StringIO()
    set_up_logging({"FERRY_LOG_FORMAT": "text", "FERRY_LOG_LEVEL": "debug"}, out)

    logger.debug("served", extra={"status": 200})

    assert out.getvalue().rstrip().endswith("served  [status=200]")


def test_quiet_by_level() -> None:
    out = io.StringIO()
    set_up_logging({"FERRY_LOG_LEVEL": "error"}, out)

    logger.warning("served")

    assert out.getvalue() == ""


@pytest.mark.parametrize("name", ["FERRY_LOG_FORMAT", "FERRY_LOG_LEVEL"])
def test_a_wrong_choice_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}='loud'.*must be one of"):
        set_up_logging({name: "loud"}, io.StringIO())
