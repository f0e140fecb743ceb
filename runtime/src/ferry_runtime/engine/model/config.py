"""Reading a checkpoint's config.json without importing transformers, which takes seconds.

Families name every key with the default that transformers' own config class gives it, because files
on the Hub leave out what equals the default; a test holds the two together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ferry_runtime.errors import EngineLoadError

_MISSING = object()


class RawConfig:
    """config.json with typed access. Several names for one key are tried in order."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    @classmethod
    def read(cls, directory: Path) -> RawConfig:
        return cls(read_json(directory / "config.json"))

    @property
    def model_type(self) -> str:
        return self.text("model_type", default="")

    def raw(self, *names: str, default: Any = None) -> Any:
        for name in names:
            if name in self._values:
                return self._values[name]
        return default

    def integer(self, *names: str, default: int | None = None) -> int:
        value = self.raw(*names)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int):
            raise EngineLoadError(f"config.json: {names[0]} must be an integer.")
        return value

    def optional_integer(self, *names: str, default: int | None = None) -> int | None:
        """An explicit null stays None; only an absent key takes the default."""
        value = self.raw(*names, default=_MISSING)
        if value is _MISSING:
            return default
        return None if value is None else self.integer(*names)

    def number(self, *names: str, default: float | None = None) -> float:
        value = self.raw(*names)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise EngineLoadError(f"config.json: {names[0]} must be a number.")
        return float(value)

    def optional_number(self, *names: str, default: float | None = None) -> float | None:
        value = self.raw(*names, default=_MISSING)
        if value is _MISSING:
            return default
        return None if value is None else self.number(*names)

    def flag(self, *names: str, default: bool) -> bool:
        value = self.raw(*names)
        return default if value is None else bool(value)

    def text(self, *names: str, default: str) -> str:
        value = self.raw(*names)
        value = default if value is None else value
        if not isinstance(value, str):
            raise EngineLoadError(f"config.json: {names[0]} must be a string.")
        return value

    def mapping(self, *names: str) -> Mapping[str, Any] | None:
        value = self.raw(*names)
        if value is not None and not isinstance(value, dict):
            raise EngineLoadError(f"config.json: {names[0]} must be an object.")
        return cast("Mapping[str, Any] | None", value)

    def strings(self, *names: str) -> tuple[str, ...] | None:
        value = self.raw(*names)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise EngineLoadError(f"config.json: {names[0]} must be a list of strings.")
        return tuple(value)


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EngineLoadError(f"The model directory has no {path.name}.") from None
    except (OSError, ValueError):
        raise EngineLoadError(f"The model's {path.name} cannot be read as JSON.") from None
    if not isinstance(value, dict):
        raise EngineLoadError(f"The model's {path.name} must hold a JSON object.")
    return value


def eos_token_ids(directory: Path, config: RawConfig, default: int | None) -> tuple[int, ...]:
    """What ends a sequence: generation_config.json first, as in transformers' generate()."""
    path = directory / "generation_config.json"
    generation = read_json(path) if path.exists() else {}
    value = generation.get("eos_token_id")
    if value is None:
        value = config.raw("eos_token_id", default=default)
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(item, int) and not isinstance(item, bool) for item in values):
        raise EngineLoadError("generation_config.json: eos_token_id must be an integer or a list of them.")
    return tuple(values)
