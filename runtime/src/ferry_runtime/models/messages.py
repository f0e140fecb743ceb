"""What the preparation process and its parent say to each other."""

from __future__ import annotations

import msgspec

from ferry_runtime.models.prepared import PreparedModel
from ferry_runtime.models.progress import Progress


class PrepareRequest(msgspec.Struct, frozen=True, kw_only=True):
    uri: str
    cache: str
    token: str | None = None
    weights: bool = True


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Exactly one field is set. ``failure`` is a sentence for the user."""

    progress: Progress | None = None
    model: PreparedModel | None = None
    failure: str | None = None
