"""One JSON object a line. Never the contents of objects: a manifest may hold what is nobody's business."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_FRAMES = 8
_LIBRARIES = ("kopf", "kubernetes", "aiohttp", "asyncio")


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message, and whatever the caller gave as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update((key, value) for key, value in vars(record).items() if key not in _OWN)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def whereabouts(error: BaseException) -> str:
    """An exception's type and the way to it, without its text: that may quote what an object holds."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    way = " > ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{type(error).__name__}: {way}"


def configure(level: str) -> None:
    """Send the process's log to standard error; libraries only speak when something is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)
