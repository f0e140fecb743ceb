"""What `ferry run` shows: progress while the model is made ready, then where it is served."""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ferry_runtime.logs import TextFormatter

logger = logging.getLogger(__name__)

_LOGGED_SHARE = 0.25


class ConsoleHandler(logging.Handler):
    """Log lines above a live progress bar, instead of through it."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self.setFormatter(TextFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._console.print(self.format(record), markup=False, highlight=False, soft_wrap=True)
        except OSError:
            self.handleError(record)


class StartDisplay:
    """A bar on a terminal, log lines elsewhere. Use as a context manager around the start."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=32),
            TextColumn("{task.fields[share]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._progress.add_task("starting", total=None, share="")
        self._logged: tuple[str, float] = ("", -1.0)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            logging.getLogger().handlers = [ConsoleHandler(self._console)]
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away. Idempotent."""
        self._progress.stop()

    def update(self, stage: str, fraction: float | None) -> None:
        if self._console.is_terminal:
            self._progress.update(
                self._task,
                description=stage,
                total=None if fraction is None else 1.0,
                completed=fraction or 0.0,
                share="" if fraction is None else f"{fraction:4.0%}",
            )
            return
        said, share = self._logged
        if stage != said or (fraction or 0.0) >= share + _LOGGED_SHARE:
            self._logged = (stage, fraction or 0.0)
            logger.info("%s%s", stage, "" if fraction is None else f", {fraction:.0%}")


def announce(name: str, url: str, seconds: float) -> None:
    """To stdout, where scripts that wait for it look."""
    sys.stdout.write(
        f"\n{name} is ready after {seconds:.0f} s at {url}\n\n"
        f"  Dashboard          {url}/dashboard\n"
        f"  API documentation  {url}/docs\n\n"
        "Try it:\n"
        f"  curl -s {url}/generate -H 'content-type: application/json' \\\n"
        '    -d \'{"prompt":"What is the capital of France?"}\'\n\n'
        "Stop it with Ctrl-C.\n"
    )
    sys.stdout.flush()
