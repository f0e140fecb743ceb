"""What somebody wants to see when a scenario has failed, in one folder."""

from __future__ import annotations

from pathlib import Path

from e2e.harness.cluster import Cluster
from e2e.harness.shell import StepFailed, run

_KINDS = "infsvc,deployments,replicasets,pods,services,endpointslices,configmaps,pvc,pdb,events"


def dump(cluster: Cluster, namespaces: list[str], folder: Path) -> None:
    """Objects, events and logs of the namespaces; logs of the nodes. Never fails itself."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "nodes.txt", cluster, "describe", "nodes")
    for namespace in namespaces:
        here = ("--namespace", namespace)
        _write(folder / f"{namespace}-objects.txt", cluster, "get", _KINDS, *here, "--output=wide")
        _write(folder / f"{namespace}-services.yaml", cluster, "get", "infsvc", *here, "--output=yaml")
        _write(folder / f"{namespace}-describe.txt", cluster, "describe", "infsvc,deployments,pods", *here)
        for pod in _said(cluster, "get", "pods", *here, "--output=name").split():
            name = pod.rpartition("/")[2]
            logs = ("logs", pod, *here, "--all-containers", "--tail=2000")
            _write(folder / f"{namespace}-{name}.log", cluster, *logs)
            previous = _said(cluster, *logs, "--previous")
            if previous:
                (folder / f"{namespace}-{name}-previous.log").write_text(previous)
    for node in cluster.nodes:
        for log in ("kubelet", "containerd", "pod-network"):
            said = run("docker", "exec", node, "tail", "--lines=1000", f"/var/log/{log}.log", check=False)
            (folder / f"{node}-{log}.log").write_text(said)


def _write(target: Path, cluster: Cluster, *words: str) -> None:
    target.write_text(_said(cluster, *words))


def _said(cluster: Cluster, *words: str) -> str:
    try:
        return cluster.kubectl(*words, check=False, seconds=60)
    except StepFailed as error:
        return str(error)
