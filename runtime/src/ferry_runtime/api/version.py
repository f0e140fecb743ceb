"""The version that the distribution was built with."""

from __future__ import annotations

from importlib.metadata import version

VERSION = version("ferry-serving")
