"""What both streaming routes ask of a body before they answer."""

from __future__ import annotations

import logging
import re

from ferry_runtime.api.schemas.sampling import StreamFields
from ferry_runtime.errors import InvalidRequest

logger = logging.getLogger(__name__)

IGNORED_HEADER = "x-ferry-ignored-fields"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SHOWN = 10


def wants_usage(body: StreamFields) -> bool:
    """Whether a last chunk carries usage. Raises InvalidRequest for options without a stream."""
    if body.stream_options is None:
        return False
    if not body.stream:
        raise InvalidRequest("stream_options is only allowed when stream is true.", param="stream_options")
    return bool(body.stream_options.include_usage)


def ignored_header(unknown: frozenset[str]) -> dict[str, str]:
    """Names the fields that were not understood, so that a typing error can be found: other
    OpenAI-compatible servers accept and ignore such fields, and clients count on it."""
    if not unknown:
        return {}
    names = sorted(name for name in unknown if _PLAIN_NAME.fullmatch(name))[:_SHOWN]
    logger.debug("fields not understood: %s", ", ".join(names))
    return {IGNORED_HEADER: ", ".join(names)} if names else {}
