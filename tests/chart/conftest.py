"""The chart, rendered by a real helm. Asked for by name (`make test-operator`): helm may have to be built."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.operator.binaries import helm as helm_executable
from tests.integration.operator.cluster import Cluster, cluster

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "ferry"


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    asked = any("tests/chart" in argument.replace(os.sep, "/") for argument in config.args)
    return None if asked else True


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    executable = helm_executable()
    home = tmp_path_factory.mktemp("helm")
    environment = {**os.environ, **{f"HELM_{n}_HOME": str(home / n) for n in ("CACHE", "CONFIG", "DATA")}}

    def run(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(executable), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def render(helm: Callable[..., Any]) -> Callable[..., list[dict[str, Any]]]:
    """Manifests of a release named `models` in namespace `serving`."""

    def documents(*settings: str) -> list[dict[str, Any]]:
        values = [word for setting in settings for word in ("--set-json", setting)]
        done = helm("template", "models", str(CHART), "--namespace", "serving", *values)
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    return documents


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("plane")) as made:
        yield made
