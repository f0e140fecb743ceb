"""The preparation process: one request on stdin, JSON lines on stdout, then it ends.

A process of its own, because conversion needs torch, which the HTTP process never loads; because
its memory goes with it; and because killing it is the one sure way to stop a download.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO

import msgspec

from ferry_runtime.errors import FerryError
from ferry_runtime.models.messages import Line, PrepareRequest
from ferry_runtime.models.progress import Progress

_REPORT_SECONDS = 0.1


class _Reporter:
    """Writes at most ten lines a second, but every change of stage."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._stage: object = None
        self._last = 0.0
        self._lock = threading.Lock()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        with self._lock:
            if progress.stage == self._stage and now - self._last < _REPORT_SECONDS:
                return
            self._stage, self._last = progress.stage, now
            self.send(Line(progress=progress))

    def send(self, line: Line) -> None:
        self._out.write(msgspec.json.encode(line) + b"\n")
        self._out.flush()


def main() -> int:
    # Libraries print; their words must not get between the lines that the parent reads.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=PrepareRequest)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    reporter = _Reporter(out)
    try:
        from ferry_runtime.models.cachefolder import CacheFolder  # noqa: PLC0415 (after stdout is safe)
        from ferry_runtime.models.prepare import Preparation  # noqa: PLC0415

        model = Preparation(
            uri=request.uri,
            cache=CacheFolder(Path(request.cache)),
            report=reporter,
            token=request.token,
            weights=request.weights,
        ).run()
    except FerryError as error:
        logging.getLogger(__name__).debug("preparation failed", exc_info=True)
        reporter.send(Line(failure=str(error)))
        return 1
    reporter.send(Line(model=model))
    return 0


def _end_with_parent() -> None:
    """The parent holds the other end of stdin open as long as it lives."""
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
