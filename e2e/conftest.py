"""One cluster for the whole run, the chart in it, and a namespace of its own for each scenario.

Asked for by name (`make e2e`). E2E_KEEP=1 keeps the cluster and uses one that was kept.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from e2e.harness.cluster import Cluster, cluster
from e2e.harness.diagnostics import dump
from e2e.harness.images import ROOT, Images, build_all
from e2e.harness.node_image import node_image
from e2e.harness.place import Place
from e2e.harness.release import NAMESPACE, Release
from e2e.harness.table import Table

_NAME = os.environ.get("E2E_CLUSTER", "ferry-e2e")
_DIAGNOSTICS = Path(os.environ.get("E2E_DIAGNOSTICS", ROOT / "build" / "e2e"))
_TABLE = pytest.StashKey[Table]()
_FAILED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TABLE] = Table()


@pytest.fixture(scope="session")
def images() -> Images:
    return build_all()


@pytest.fixture(scope="session")
def bare_cluster(images: Images) -> Iterator[Cluster]:
    keep = bool(os.environ.get("E2E_KEEP"))
    workers = int(os.environ.get("E2E_WORKERS", "1"))
    with cluster(_NAME, node_image(), workers=workers, keep=keep) as made:
        made.load(images.operator, images.fake, images.redis)
        yield made


@pytest.fixture(scope="session")
def release(bare_cluster: Cluster, images: Images, request: pytest.FixtureRequest) -> Release:
    """The chart, installed."""
    made = Release(bare_cluster, images)
    began = time.monotonic()
    try:
        made.install()
    except Exception:
        dump(bare_cluster, [NAMESPACE], _DIAGNOSTICS / "install")
        raise
    request.config.stash[_TABLE].note("(helm install)", "operator ready", time.monotonic() - began)
    return made


@pytest.fixture
def place(request: pytest.FixtureRequest, release: Release) -> Iterator[Place]:
    """A namespace of the scenario's own; its objects are dumped when the scenario fails."""
    scenario = request.node.name.removeprefix("test_")
    namespace = re.sub("[^a-z0-9]+", "-", scenario)[:50].strip("-")
    table = request.config.stash[_TABLE]
    made = Place(release.cluster, release.images, namespace, table, scenario)
    made.make()
    began = time.monotonic()
    try:
        yield made
    finally:
        row = table.row(scenario)
        row.seconds = time.monotonic() - began
        row.passed = not request.node.stash.get(_FAILED, False)
        if not row.passed:
            dump(release.cluster, [namespace, NAMESPACE], _DIAGNOSTICS / namespace)
        made.remove()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed:
        item.stash[_FAILED] = True
        report.sections.append(("diagnostics", f"in {_DIAGNOSTICS}"))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    table = config.stash[_TABLE]
    if table.rows:
        terminalreporter.section("scenarios under traffic")
        for line in table.lines():
            terminalreporter.write_line(line)
