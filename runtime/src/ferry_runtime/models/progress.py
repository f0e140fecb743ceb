"""How far preparation has come: reported by its process, shown by the command line and /readyz."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec


class Stage(StrEnum):
    WAIT = "waiting for another process that prepares the same model"
    DOWNLOAD = "downloading"
    READ = "reading the packaged weights"
    CONVERT = "converting the weights"
    WRITE = "writing the weights"
    TOKENIZER = "preparing the tokenizer"
    VERIFY = "verifying"


class Progress(msgspec.Struct, frozen=True):
    """``done`` of ``total`` in ``unit`` ("B", "tensors"); total None where nobody knows it."""

    stage: Stage
    done: int = 0
    total: int | None = None
    unit: str = ""


Report = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """For callers that show nothing."""
