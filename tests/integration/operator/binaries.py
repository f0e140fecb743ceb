"""Builds a Kubernetes control plane from Go modules, once per version, and says where it lies.

The tests need a real API server; the modules in `e2e/cluster/go.mod` are all it takes. A cold build takes six
to fifteen minutes on two cores, so the result is kept in the user's cache folder, keyed by what went into it.
Run as a script it builds and prints the folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

MODULE = Path(__file__).resolve().parents[3] / "e2e" / "cluster"
KUBERNETES_COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
ETCD = "go.etcd.io/etcd/server/v3"
VARIABLE = "FERRY_CLUSTER_BINARIES"
"""Names a folder that already holds the binaries (kind's, a distribution's); nothing is built then."""


class BuildFailed(Exception):
    """Go is missing or a build failed; the message ends with what the compiler said."""


@dataclass(frozen=True)
class Binaries:
    """Where the executables lie."""

    folder: Path

    @property
    def apiserver(self) -> Path:
        return self.folder / "kube-apiserver"

    @property
    def controller_manager(self) -> Path:
        return self.folder / "kube-controller-manager"

    @property
    def scheduler(self) -> Path:
        return self.folder / "kube-scheduler"

    @property
    def kubectl(self) -> Path:
        return self.folder / "kubectl"

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    def missing(self) -> list[str]:
        return [name for name in (*KUBERNETES_COMMANDS, "etcd") if not (self.folder / name).is_file()]


def binaries() -> Binaries:
    """The control plane's binaries, built now if this machine has not built this version before."""
    given = os.environ.get(VARIABLE)
    if given:
        found = Binaries(Path(given))
        if found.missing():
            raise BuildFailed(f"{VARIABLE}={given} lacks {', '.join(found.missing())}")
        return found
    root = user_cache_path("ferry") / "cluster-binaries"
    root.mkdir(parents=True, exist_ok=True)
    target = Binaries(root / f"{_kubernetes_version()}-{_inputs_digest()}")
    with FileLock(root / ".lock"):
        if target.missing():
            _build(target.folder)
    return target


def helm() -> Path:
    """The helm executable, built now if this machine has not built this version before."""
    given = os.environ.get("FERRY_HELM")
    if given:
        return Path(given)
    root = user_cache_path("ferry") / "cluster-binaries"
    root.mkdir(parents=True, exist_ok=True)
    module = MODULE / "helm"
    digest = hashlib.sha256((module / "go.sum").read_bytes()).hexdigest()[:12]
    executable = root / f"helm-{digest}"
    with FileLock(root / ".helm-lock"):
        if not executable.is_file():
            _compile(executable, "helm.sh/helm/v4/cmd/helm", module, "-s -w")
    return executable


def _kubernetes_version() -> str:
    for line in (MODULE / "go.mod").read_text().splitlines():
        words = line.split()
        if words[:1] == ["k8s.io/kubernetes"]:
            return words[1]
    raise BuildFailed(f"{MODULE / 'go.mod'} does not require k8s.io/kubernetes")


def _inputs_digest() -> str:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    digest.update(repr((KUBERNETES_COMMANDS, _linker_flags())).encode())
    return digest.hexdigest()[:12]


def _linker_flags() -> str:
    """Clients parse the server's version, which a plain `go build` leaves at v0.0.0."""
    version = _kubernetes_version()
    major, minor, _patch = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s", "-w", *(f"-X {p}.{k}={v}" for p in packages for k, v in values.items())])


def _go() -> str:
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if found is None:
        raise BuildFailed(f"Go is not installed. Install Go ≥ 1.24, or name ready binaries by {VARIABLE}.")
    return found


def _build(folder: Path) -> None:
    work = folder.with_name(folder.name + ".building")
    work.mkdir(exist_ok=True)
    print(f"Building a Kubernetes control plane in {folder} (a quarter of an hour, once) …", file=sys.stderr)  # noqa: T201
    for name in KUBERNETES_COMMANDS:
        _compile(work / name, f"k8s.io/kubernetes/cmd/{name}")
    _compile(work / "etcd", ETCD)
    shutil.rmtree(folder, ignore_errors=True)
    work.rename(folder)


def _compile(output: Path, package: str, module: Path = MODULE, flags: str | None = None) -> None:
    if output.is_file():
        return
    partial = output.with_suffix(".partial")
    flags = _linker_flags() if flags is None else flags
    command = [_go(), "build", "-trimpath", "-ldflags", flags, "-o", str(partial), package]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    done = subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"go build {package} failed:\n{done.stderr[-4000:]}")
    partial.rename(output)


if __name__ == "__main__":
    print(binaries().folder)  # noqa: T201
