"""Running other programs: their output in the error where they fail, never a shell."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path


class StepFailed(Exception):
    """A program that the harness needs failed; the message has the end of what it said."""


class Missing(Exception):
    """Something has to be installed or started first; the message says what."""


def run(
    *command: str | Path,
    text: str | None = None,
    check: bool = True,
    seconds: float = 300,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """What the program wrote to its standard output. ``text`` is its standard input.

    :raises StepFailed: it failed (where ``check``) or took more than ``seconds``.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StepFailed(f"{' '.join(words)} took more than {seconds:.0f} s") from None
    if check and done.returncode != 0:
        said = (done.stdout[-2000:] + done.stderr[-2000:]).strip()
        raise StepFailed(f"{' '.join(words)} ended with {done.returncode}:\n{said}")
    return done.stdout


def say(sentence: str) -> None:
    """Progress, for whoever waits."""
    print(f"{time.strftime('%H:%M:%S')} {sentence}", file=sys.stderr, flush=True)
