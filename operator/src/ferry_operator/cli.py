"""`ferry-operator`: runs the operator as its environment says."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from ferry_operator import app, logs
from ferry_operator.errors import InvalidSettings
from ferry_operator.settings import from_environment


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 stopped as told, 2 settings that cannot work."""
    parser = argparse.ArgumentParser(
        prog="ferry-operator",
        description="Reconciles InferenceServices. Settings are FERRY_* variables, which the chart sets.",
    )
    parser.add_argument("--version", action="version", version=version("ferry-serving"))
    parser.parse_args(arguments)
    try:
        settings = from_environment()
    except InvalidSettings as error:
        sys.stderr.write(f"ferry-operator: {error}\n")
        return 2
    logs.configure(settings.log_level)
    app.run(settings)
    return 0
