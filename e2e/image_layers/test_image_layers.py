"""What the images promise: small, not root, the dashboard inside, one new layer for a change of the code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from e2e.harness import docker
from e2e.harness.images import ROOT, python
from e2e.harness.shell import run

pytestmark = pytest.mark.smoke

_SENT = ("crds", "operator", "runtime", "requirements")
_ALONE = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    ".dockerignore",
    "Dockerfile.operator",
    "Dockerfile.runtime",
)


def _inspect(name: str) -> dict:
    found: dict = json.loads(run("docker", "image", "inspect", name))[0]
    return found


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """The project with another line of code in the operator and in the runtime."""
    left_out = shutil.ignore_patterns("node_modules", "__pycache__", "bundle")
    for name in _SENT:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=left_out)
    for name in _ALONE:
        shutil.copy(ROOT / name, tmp_path)
    for module in ("operator/src/ferry_operator/app.py", "runtime/src/ferry_runtime/errors.py"):
        with (tmp_path / module).open("a") as code:
            code.write("# changed\n")
    return tmp_path


def test_a_change_of_the_code_costs_the_last_layer_alone(images, changed):
    for name, dockerfile, target in (
        (images.operator, "Dockerfile.operator", None),
        (images.server, "Dockerfile.runtime", "server"),
    ):
        other = "ferry-e2e/changed:e2e"
        arguments = {"PYTHON_IMAGE": python()}
        docker.build(other, changed / dockerfile, changed, arguments=arguments, target=target)
        try:
            before, after = (_inspect(one)["RootFS"]["Layers"] for one in (name, other))
        finally:
            run("docker", "image", "rm", other)
        assert before[:-1] == after[:-1]
        assert before[-1] != after[-1]


def test_the_operator_is_small_and_nobody_is_root(images):
    assert _inspect(images.operator)["Size"] <= 200_000_000
    for name in (images.operator, images.server):
        settings = _inspect(name)["Config"]
        assert settings["User"] == "10001:10001"
        assert settings["Healthcheck"]["Test"][0] == "CMD"
        assert settings["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_the_dashboard_is_built_in(images):
    ask = "from ferry_runtime.api.dashboard import bundle as b; print((b.BUNDLE_FOLDER / b.PAGE).is_file())"
    said = run("docker", "run", "--rm", "--entrypoint", "python", images.server, "-c", ask)
    assert said.strip() == "True"
