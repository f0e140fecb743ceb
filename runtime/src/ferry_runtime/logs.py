"""Structured logs: one JSON object a line, or readable lines on a terminal.

Prompts and answers are never logged. Request ids are the server's own; `bind_request` makes every
record of a request carry its id.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Any

from ferry_runtime.errors import ConfigurationError

_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_FORMATS = ("auto", "json", "text")
# What every LogRecord has; anything more came in through ``extra``.
_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime"}
# Loggers that would repeat, at INFO, what Ferry says itself.
_CHATTY = ("httpx", "httpcore", "uvicorn.error", "filelock", "asyncio", "urllib3")


@contextmanager
def bind_request(request_id: str) -> Iterator[None]:
    """Every record of this task, and of tasks that it starts, carries the id."""
    token = _request_id.set(request_id)
    try:
        yield
    finally:
        _request_id.reset(token)


def set_up_logging(environment: Mapping[str, str], stream: IO[str] | None = None) -> None:
    """FERRY_LOG_FORMAT (auto, json, text) and FERRY_LOG_LEVEL; auto is text on a terminal.

    Replaces the root logger's handlers. Raises ConfigurationError.
    """
    out = stream or sys.stderr
    style = _choice(environment, "FERRY_LOG_FORMAT", "auto", _FORMATS)
    level = _choice(environment, "FERRY_LOG_LEVEL", "INFO", _LEVELS)
    if style == "auto":
        style = "text" if out.isatty() else "json"
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    if level != "DEBUG":
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)


class JsonFormatter(logging.Formatter):
    """time (RFC 3339, UTC), level, logger, message, request_id, whatever ``extra`` holds, error."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        extras = " ".join(f"{key}={value}" for key, value in _extras(record).items())
        line = f"{time} {record.levelname:<7} {record.getMessage()}" + (f"  [{extras}]" if extras else "")
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    extras = {key: value for key, value in record.__dict__.items() if key not in _STANDARD}
    request_id = _request_id.get()
    if request_id is not None:
        extras.setdefault("request_id", request_id)
    return extras


def _choice(environment: Mapping[str, str], name: str, default: str, allowed: tuple[str, ...]) -> str:
    text = environment.get(name, "").strip() or default
    for value in allowed:
        if value.lower() == text.lower():
            return value
    raise ConfigurationError(f"{name}={text!r} is not valid: it must be one of {', '.join(allowed)}.")
