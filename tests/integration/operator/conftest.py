"""A control plane per test process, a namespace and an operator of its own per test.

These tests are asked for by name (`make test-operator`): the first run on a machine builds Kubernetes.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tests.integration.operator.cluster import Cluster, cluster, wait_for
from tests.integration.operator.node import Node, node
from tests.integration.operator.process import ROOT, Operator, operator
from tests.integration.operator.service import Service

_FOLDER = "integration/operator"
_numbers = itertools.count()


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    asked = any(_FOLDER in argument.replace(os.sep, "/") for argument in config.args)
    return None if asked else True


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The control plane, with the CRD."""
    with cluster(tmp_path_factory.mktemp("plane")) as made:
        crd = yaml.safe_load((ROOT / "crds" / "inferenceservices.serving.ferry.dev.yaml").read_text())
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        made.api.apply(f"{crds}/{crd['metadata']['name']}", crd)
        wait_for("the CRD", lambda: made.api.find("/apis/serving.ferry.dev/v1alpha1/inferenceservices"))
        yield made


@pytest.fixture(scope="session")
def machine(plane: Cluster) -> Iterator[Node]:
    """A node with room for every pod that asks for no device."""
    with node(plane.api, "machine") as made:
        yield made


@pytest.fixture
def namespace(plane: Cluster) -> Iterator[str]:
    name = plane.namespace(f"test-{os.getpid()}-{next(_numbers)}")
    yield name
    plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def ferry(plane: Cluster, machine: Node, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    """A running operator of the test's namespace."""
    machine.by_image.clear()
    with operator(plane, namespace, tmp_path / "operator") as made:
        yield made


@pytest.fixture
def service(plane: Cluster, namespace: str) -> Callable[..., Service]:
    """Makes InferenceServices in the test's namespace."""

    def make(name: str = "chat", *, start: bool = True, **spec: object) -> Service:
        made = Service(plane.api, namespace, name)
        return made.apply(**spec) if start else made

    return make
