"""The node image: kindest/node where a registry answers, else one of Debian packages and Go modules."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from e2e.harness import docker
from e2e.harness.images import E2E, debian
from e2e.harness.shell import Missing, StepFailed, run, say
from tests.integration.operator.binaries import Binaries, kubernetes_version, node_binaries, tool

_FOLDER = E2E / "node-image"
_SYSTEM = "ferry-e2e/system"
_LINK = "-s -w"


def node_image() -> str:
    """The name of an image that `kind create cluster --image` takes."""
    docker.require_engine()
    public = f"kindest/node:{kubernetes_version()}"
    if docker.pull(public):
        return public
    name = f"ferry-e2e/node:{kubernetes_version()}-{_inputs()}"
    if docker.image_id(name) is None:
        say("building the cluster's executables, where they are missing (once on a machine)")
        _build(name, node_binaries())
    return name


def _inputs() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in _FOLDER.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(_FOLDER)}\n".encode() + path.read_bytes())
    for module in ("cluster", "cluster/coredns"):
        digest.update((E2E / module / "go.sum").read_bytes())
    return digest.hexdigest()[:12]


def _build(name: str, binaries: Binaries) -> None:
    docker.build(_SYSTEM, _FOLDER / "system.Dockerfile", _FOLDER, arguments={"DEBIAN": debian()})
    wanted = _images_of_kubeadm(binaries)
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        for name_of, image in wanted.items():
            _component(name_of, image, binaries, context / name_of)
        node = context / "node"
        shutil.copytree(_FOLDER / "files", node)
        docker.save(list(wanted.values()), node / "images.tar")
        for executable in ("kubeadm", "kubelet", "kubectl"):
            shutil.copy(binaries.folder / executable, node)
        (node / "version").write_text(kubernetes_version())
        settings = node / "containerd.toml"
        settings.write_text(settings.read_text().replace("@PAUSE@", wanted["pause"]))
        docker.build(name, _FOLDER / "node.Dockerfile", node, arguments={"SYSTEM": _SYSTEM})


def _images_of_kubeadm(binaries: Binaries) -> dict[str, str]:
    """Component → the name that this version's kubeadm gives its image."""
    version = kubernetes_version()
    listed = run(binaries.folder / "kubeadm", "config", "images", "list", "--kubernetes-version", version)
    return {image.rpartition("/")[2].partition(":")[0]: image for image in listed.split()}


def _component(component: str, image: str, binaries: Binaries, context: Path) -> None:
    context.mkdir()
    executable = context / component
    match component:
        case "coredns":
            shutil.copy(tool("coredns"), executable)
            dockerfile = "entrypoint.Dockerfile"
        case "pause":
            _compile_pause(executable)
            dockerfile = "entrypoint.Dockerfile"
        case "kube-proxy":
            shutil.copy(binaries.folder / component, executable)
            shutil.copy(_FOLDER / "files" / "collect-iptables", context)
            docker.build(image, _FOLDER / "proxy.Dockerfile", context, arguments={"SYSTEM": _SYSTEM})
            return
        case _:
            shutil.copy(binaries.folder / component, executable)
            dockerfile = "component.Dockerfile"
    docker.build(image, _FOLDER / dockerfile, context, arguments={"BINARY": component})


def _compile_pause(target: Path) -> None:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if go is None:
        raise Missing("Go is not installed: the node image is built from Go modules (Go ≥ 1.24).")
    command = [go, "build", "-trimpath", "-ldflags", _LINK, "-o", str(target), "."]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    done = subprocess.run(
        command, cwd=_FOLDER / "pause", env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise StepFailed(f"pause could not be built:\n{done.stderr[-2000:]}")
