"""`ferry version`: what is installed, told without importing any of it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ferry_runtime.cli.exits import Exit

_NAMED = ("torch", "transformers", "tokenizers", "sentence-transformers", "fastapi", "redis")


def show_version() -> int:
    commit = _commit()
    sys.stdout.write(f"ferry {_version_of('ferry-serving')}{f' ({commit})' if commit else ''}\n")
    sys.stdout.write(f"python {platform.python_version()}, {platform.system()} {platform.machine()}\n")
    for name in _NAMED:
        sys.stdout.write(f"{name} {_version_of(name)}\n")
    return Exit.OK


def _version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str | None:
    """FERRY_COMMIT, which images are built with, else the checkout that this runs from."""
    if commit := os.environ.get("FERRY_COMMIT"):
        return commit[:12]
    root = Path(__file__).resolve().parents[4]
    if not (root / ".git").exists():
        return None
    try:
        asked = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"],  # noqa: S607 (the user's own git)
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip()
