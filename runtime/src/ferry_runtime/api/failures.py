"""How failures are logged: by kind and place. Outside libraries' messages may hold prompt text."""

from __future__ import annotations

import logging
import traceback

from starlette.exceptions import HTTPException

from ferry_runtime.api.errors import Refusal
from ferry_runtime.errors import (
    CannotFit,
    DeadlineExceeded,
    EngineNotReady,
    InvalidRequest,
    NotCached,
    Overloaded,
)

logger = logging.getLogger(__name__)

# Every day's business of a busy or starting server, counted in metrics.
_EXPECTED = (Overloaded, EngineNotReady, DeadlineExceeded, NotCached, InvalidRequest, Refusal, CannotFit)


def log_failure(request_id: str, error: BaseException) -> None:
    """One line for an error that nobody expects, with the chain of causes."""
    if isinstance(error, _EXPECTED) or (isinstance(error, HTTPException) and error.status_code < 500):
        return
    places: list[str] = []
    current: BaseException | None = error
    while current is not None and len(places) < 5:
        frames = traceback.extract_tb(current.__traceback__)
        last = frames[-1] if frames else None
        where = f"{last.filename}:{last.lineno}" if last else "unknown place"
        places.append(f"{type(current).__module__}.{type(current).__qualname__} at {where}")
        current = current.__cause__ or current.__context__
    logger.error(
        "request failed: %s", " caused by ".join(places), extra={"request_id": request_id, "causes": places}
    )
