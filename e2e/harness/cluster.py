"""A cluster that the kind CLI makes in Docker; nothing is ever asked of another one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml
from e2e.harness.shell import StepFailed, run, say
from platformdirs import user_cache_path
from tests.integration.operator.binaries import binaries, helm, tool

_T = TypeVar("_T")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_CREATE_SECONDS = 300.0
_LOAD_SECONDS = 1200.0


class ForeignCluster(Exception):
    """What the harness was pointed at is not a cluster that it made."""


@dataclass(frozen=True)
class Cluster:
    """``name`` is kind's. The kubeconfig is a file of its own: the user's is neither read nor changed."""

    name: str
    kubeconfig: Path

    @property
    def context(self) -> str:
        return f"kind-{self.name}"

    @property
    def nodes(self) -> list[str]:
        return sorted(_kind("get", "nodes", "--name", self.name).split())

    def kubectl(self, *words: str, text: str | None = None, check: bool = True, seconds: float = 120) -> str:
        chosen = ("--kubeconfig", str(self.kubeconfig), "--context", self.context)
        return run(binaries().kubectl, *chosen, *words, text=text, check=check, seconds=seconds)

    def helm(self, *words: str, seconds: float = 300) -> str:
        chosen = ("--kubeconfig", str(self.kubeconfig), "--kube-context", self.context)
        return run(helm(), *chosen, *words, seconds=seconds)

    def get(self, *words: str) -> dict[str, Any]:
        """One object, or a list of them.

        :raises StepFailed: there is none of that name.
        """
        found: dict[str, Any] = json.loads(self.kubectl("get", *words, "--output", "json"))
        return found

    def apply(self, *documents: dict[str, Any], namespace: str) -> None:
        self.kubectl("apply", "--namespace", namespace, "--filename", "-", text=yaml.safe_dump_all(documents))

    def load(self, *images: str, node: str | None = None) -> None:
        """Bring images of the engine to the nodes, or to one of them; those that are there stay."""
        nodes = [node] if node else self.nodes
        for image in images:
            wanting = [name for name in nodes if not _has(name, image)]
            if wanting:
                say(f"loading {image} to {', '.join(wanting)}")
                words = ("load", "docker-image", image, "--name", self.name, "--nodes", ",".join(wanting))
                _kind(*words, seconds=_LOAD_SECONDS)

    def check_own(self) -> None:
        """:raises ForeignCluster: the kubeconfig is not that of a kind cluster on this machine."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        servers = [urlsplit(entry["cluster"]["server"]).hostname for entry in config["clusters"]]
        if config.get("current-context") != self.context or not _LOOPBACK.issuperset(map(str, servers)):
            raise ForeignCluster(
                f"{self.kubeconfig} names context {config.get('current-context')!r} at {servers}: the tests "
                f"only touch {self.context!r} on this machine. Remove that file."
            )


def _kind(*words: str, seconds: float = 120) -> str:
    return run(tool("kind"), *words, seconds=seconds)


def _has(node: str, image: str) -> bool:
    listed = run("docker", "exec", node, "ctr", "--namespace", "k8s.io", "images", "list", "--quiet")
    return _listed(image, listed.split())


def _listed(image: str, names: Sequence[str]) -> bool:
    """containerd puts the default registry, and its folder for names without one, before the name."""
    return any(name == image or name.endswith(f"/{image}") for name in names)


def _configuration(workers: int) -> str:
    nodes = [{"role": "control-plane"}, *({"role": "worker"} for _ in range(workers))]
    return yaml.safe_dump({"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": nodes})


@contextmanager
def cluster(name: str, image: str, *, workers: int, keep: bool) -> Iterator[Cluster]:
    """A ready cluster, deleted afterwards unless it is to be kept; one that was kept is used again.

    :raises ForeignCluster: there is a cluster of that name that nobody asked to keep.
    """
    folder = user_cache_path("ferry") / "e2e"
    folder.mkdir(parents=True, exist_ok=True)
    made = Cluster(name, folder / f"{name}.kubeconfig")
    if name in _kind("get", "clusters").split():
        if not keep:
            raise ForeignCluster(
                f"There is a kind cluster {name!r} already. Set E2E_KEEP=1 to use it, or remove it: "
                f"{tool('kind')} delete cluster --name {name}"
            )
        _kind("export", "kubeconfig", "--name", name, "--kubeconfig", str(made.kubeconfig))
    else:
        _create(made, image, workers)
    made.check_own()
    try:
        yield made
    finally:
        if not keep:
            say(f"deleting cluster {name}")
            _kind("delete", "cluster", "--name", name, "--kubeconfig", str(made.kubeconfig))
            made.kubeconfig.unlink(missing_ok=True)


def _create(made: Cluster, image: str, workers: int) -> None:
    say(f"creating cluster {made.name}: a control plane and {workers} worker(s)")
    began = time.monotonic()
    words = ("create", "cluster", "--name", made.name, "--image", image, "--wait", "120s")
    kubeconfig = ("--kubeconfig", str(made.kubeconfig), "--config", "-")
    try:
        run(tool("kind"), *words, *kubeconfig, text=_configuration(workers), seconds=_CREATE_SECONDS)
    except StepFailed:
        _kind("delete", "cluster", "--name", made.name, "--kubeconfig", str(made.kubeconfig))
        raise
    # The control plane takes pods too: two nodes are enough to drain one.
    made.kubectl("taint", "nodes", "--all", "node-role.kubernetes.io/control-plane-", check=False)
    say(f"the cluster is ready after {time.monotonic() - began:.0f} s")


def wait_for(what: str, ask: Callable[[], _T], seconds: float = 120, every: float = 0.5) -> _T:
    """The first true answer; errors of the cluster count as not yet.

    :raises AssertionError: after ``seconds``, with the last answer.
    """
    end = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < end:
        try:
            found = ask()
        except (StepFailed, KeyError, IndexError) as error:
            last = error
        else:
            if found:
                return found
            last = found
        time.sleep(every)
    raise AssertionError(f"waited {seconds:.0f} s for {what}; last: {last!r}")
