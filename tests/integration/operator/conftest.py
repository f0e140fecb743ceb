"""A control plane per test process, and an operator: one that tests share, or one of a test's own.

Starting an operator takes longer than most tests. So those that only look at what it does take turns in the
namespaces of a shared one; a test that stops it, or counts what it has done, asks for `alone`.
These tests are asked for by name (`make test-operator`): the first run on a machine builds Kubernetes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tests.integration.operator.cluster import Cluster, Status, cluster, wait_for
from tests.integration.operator.node import Node, node
from tests.integration.operator.process import ACCOUNT, ROOT, Operator, admit, operator
from tests.integration.operator.service import Service

_FOLDER = "integration/operator"
_numbers = itertools.count()
_SHARED = 4  # namespaces: what one test leaves has the time of three others to go
_CLEARED = (
    "apis/serving.ferry.dev/v1alpha1/{}/inferenceservices",
    "apis/autoscaling/v2/{}/horizontalpodautoscalers",
    "apis/apps/v1/{}/deployments",
    "apis/networking.k8s.io/v1/{}/ingresses",
    "apis/networking.k8s.io/v1/{}/networkpolicies",
    "apis/policy/v1/{}/poddisruptionbudgets",
    "api/v1/{}/resourcequotas",
    "api/v1/{}/services",
    "api/v1/{}/configmaps",
    "api/v1/{}/secrets",
    "api/v1/{}/persistentvolumeclaims",
    "api/v1/{}/serviceaccounts",
    "apis/apps/v1/{}/replicasets",
    "api/v1/{}/pods",
    "api/v1/{}/events",
)
_KUBERNETES_OWN = ("default", "kube-root-ca.crt", ACCOUNT)


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


def _new_namespace(plane: Cluster) -> str:
    return plane.namespace(f"test-{os.getpid()}-{next(_numbers)}")


def _clear(plane: Cluster, namespace: str) -> None:
    """Ask for everything in a namespace to go, the resource first: the operator restores the rest."""
    for collection in _CLEARED:
        path = "/" + collection.format(f"namespaces/{namespace}")
        for item in plane.api.get(path)["items"]:
            if item["metadata"]["name"] not in _KUBERNETES_OWN:
                plane.api.delete(f"{path}/{item['metadata']['name']}")


def _is_clear(plane: Cluster, namespace: str) -> bool:
    return not any(
        item["metadata"]["name"] not in _KUBERNETES_OWN
        for collection in _CLEARED
        for item in plane.api.get("/" + collection.format(f"namespaces/{namespace}"))["items"]
    )


class Turns:
    """The shared operator and its namespaces, one test in each at a time."""

    def __init__(self, plane: Cluster, operator: Operator, namespaces: list[str]) -> None:
        self._plane = plane
        self.operator = operator
        self._next = itertools.cycle(namespaces)

    @contextlib.contextmanager
    def turn(self) -> Iterator[str]:
        """A clear namespace that the operator looks after."""
        namespace = next(self._next)
        running = self.operator.process.running
        if running is None or running.poll() is not None:
            self.operator.stop()
            self.operator.start().wait_ready().wait_leading()
        wait_for("the namespace to be clear", lambda: self._cleared(namespace), 60, every=0.2)
        try:
            yield namespace
        finally:
            with contextlib.suppress(Status):
                _clear(self._plane, namespace)

    def _cleared(self, namespace: str) -> bool:
        if _is_clear(self._plane, namespace):
            return True
        _clear(self._plane, namespace)
        return False


@pytest.fixture(scope="session")
def turns(plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Turns]:
    home, *others = namespaces = [_new_namespace(plane) for _ in range(_SHARED)]
    for other in others:
        admit(plane.api, other, home)
    scope = {"FERRY_SCOPE": ",".join(namespaces)}
    with operator(plane, home, tmp_path_factory.mktemp("shared"), **scope) as made:
        yield Turns(plane, made, namespaces)


@pytest.fixture
def alone() -> None:
    """Asked for by a test that needs an operator and a namespace of its own."""


@pytest.fixture
def namespace(request: pytest.FixtureRequest, plane: Cluster) -> Iterator[str]:
    """The test's namespace: one of the shared operator's turns, or a new one."""
    if "ferry" in request.fixturenames and "alone" not in request.fixturenames:
        with request.getfixturevalue("turns").turn() as name:
            yield name
        return
    name = _new_namespace(plane)
    yield name
    plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def ferry(
    request: pytest.FixtureRequest, plane: Cluster, machine: Node, namespace: str, tmp_path: Path
) -> Iterator[Operator]:
    """A running operator that looks after the test's namespace."""
    machine.by_image.clear()
    if "alone" not in request.fixturenames:
        yield request.getfixturevalue("turns").operator
        return
    with operator(plane, namespace, tmp_path / "operator") as made:
        yield made


@pytest.fixture
def service(plane: Cluster, namespace: str) -> Callable[..., Service]:
    """Makes InferenceServices in the test's namespace."""

    def make(name: str = "chat", *, start: bool = True, **spec: object) -> Service:
        made = Service(plane.api, namespace, name)
        return made.apply(**spec) if start else made

    return make
