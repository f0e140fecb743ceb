"""The command line: `ferry run`, `serve`, `validate`, `drain`, `version`."""

from ferry_runtime.cli.command import main

__all__ = ["main"]
