"""A checkpoint's tensors: safetensors only, read one at a time from mapped files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from ferry_runtime.engine.model.config import read_json
from ferry_runtime.engine.model.spec import DecoderSpec
from ferry_runtime.errors import EngineLoadError

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class Checkpoint:
    """The tensors of a directory with one model.safetensors or an index over several files.

    Keeps no tensor: what a caller lets go of leaves memory. ``unused`` names what nobody asked for.
    """

    def __init__(self, directory: Path, spec: DecoderSpec) -> None:
        self._files = _open_all(directory)
        self._where = {name: file for file in self._files for name in file.keys()}  # noqa: SIM118
        self._ignored = spec.ignored
        self._taken: set[str] = set()
        self._prefix = self._find_prefix(spec)

    def _find_prefix(self, spec: DecoderSpec) -> str:
        for prefix in spec.prefixes:
            if f"{prefix}{spec.layers[0].input_norm.name}.weight" in self._where or (
                f"{prefix}{spec.embedding.tokens}.weight" in self._where
            ):
                return prefix
        raise EngineLoadError(
            f"The checkpoint has no {spec.prefixes[0]}{spec.embedding.tokens}.weight: "
            f"it is not a {spec.family} model, or files are missing."
        )

    def keeps_float32(self, spec: DecoderSpec) -> bool:
        """Whether the token embedding, and so the model as it was saved, is in 32-bit floats."""
        name = f"{self._prefix}{spec.embedding.tokens}.weight"
        file = self._where.get(name)
        return file is not None and file.get_slice(name).get_dtype() == "F32"

    def tensor(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """One tensor under the family's prefix, as stored."""
        return self._read(self._prefix + name, shape)

    def first(self, names: Iterable[str], shape: tuple[int, ...]) -> torch.Tensor | None:
        """The first of several full names that exists (output layers stand outside the prefix)."""
        for name in names:
            if name in self._where:
                return self._read(name, shape)
        return None

    def unused(self) -> tuple[str, ...]:
        rest = set(self._where) - self._taken
        return tuple(sorted(name for name in rest if not name.endswith(self._ignored)))

    def _read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        file = self._where.get(name)
        if file is None:
            raise EngineLoadError(f"The checkpoint has no tensor {name}, which config.json calls for.")
        tensor: torch.Tensor = file.get_tensor(name)
        if tuple(tensor.shape) != shape:
            raise EngineLoadError(
                f"The checkpoint's {name} has shape {list(tensor.shape)}, "
                f"but config.json calls for {list(shape)}."
            )
        if tensor.dtype not in _FLOATS:
            raise EngineLoadError(
                f"The checkpoint's {name} holds {str(tensor.dtype).removeprefix('torch.')}; "
                "served are float32, float16 and bfloat16."
            )
        self._taken.add(name)
        return tensor


def _open_all(directory: Path) -> list[Any]:
    index = directory / "model.safetensors.index.json"
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict):
            raise EngineLoadError("model.safetensors.index.json has no weight_map.")
        names = sorted({str(name) for name in weight_map.values()})
    else:
        names = ["model.safetensors"]
    return [_open(directory, name) for name in names]


def _open(directory: Path, name: str) -> Any:
    path = directory / name
    if Path(name).name != name:
        raise EngineLoadError("model.safetensors.index.json names a file outside the model's directory.")
    if not path.exists():
        raise EngineLoadError(
            f"The model directory has no {name}. Weights are read from safetensors files only; "
            "pickled ones (.bin, .pt) can run code and are refused."
        )
    try:
        return safe_open(path, framework="pt", device="cpu")
    except (SafetensorError, OSError):
        raise EngineLoadError(f"{name} is not a complete safetensors file.") from None
