"""Builds Kubernetes and the tools around it from Go modules, once per version, and says where they lie.

The operator's tests need a real API server, the end-to-end tests a whole node; the modules below
`e2e/cluster` are all it takes. A cold build takes six to fifteen minutes on two cores, so each executable is
kept in the user's cache folder, keyed by what went into it; a build that was cut short goes on where it was.
Run as a script it builds what the tests of the operator and the chart need and prints where it lies; with
`node`, everything that the end-to-end tests need.
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
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NODE = ("kubeadm", "kubelet", "kube-proxy")
ETCD = "go.etcd.io/etcd/server/v3"
TOOLS = {
    "helm": "helm.sh/helm/v4/cmd/helm",
    "kind": "sigs.k8s.io/kind",
    "coredns": "github.com/coredns/coredns",
    "metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server",
}
"""Each has a module of its own beside the cluster's, since their dependencies differ in version."""
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

    def missing(self, *more: str) -> list[str]:
        return [name for name in (*CONTROL_PLANE, "etcd", *more) if not (self.folder / name).is_file()]


def binaries() -> Binaries:
    """The control plane's binaries, built now if this machine has not built this version before."""
    return _built()


def node_binaries() -> Binaries:
    """The control plane's binaries with what a node runs besides: kubeadm, kubelet, kube-proxy."""
    return _built(*NODE)


def _built(*more: str) -> Binaries:
    given = os.environ.get(VARIABLE)
    if given:
        found = Binaries(Path(given))
        if found.missing(*more):
            raise BuildFailed(f"{VARIABLE}={given} lacks {', '.join(found.missing(*more))}")
        return found
    root = _root()
    target = Binaries(root / f"{kubernetes_version()}-{_inputs_digest()}")
    with FileLock(root / ".lock"):
        missing = target.missing(*more)
        if missing:
            _build(target.folder, missing)
    return target


def helm() -> Path:
    """The helm executable, built now if this machine has not built this version before."""
    return tool("helm")


def tool(name: str) -> Path:
    """One of `TOOLS`; FERRY_<NAME> names a ready executable instead."""
    given = os.environ.get(f"FERRY_{name.upper().replace('-', '_')}")
    if given:
        return Path(given)
    root = _root()
    module = MODULE / name
    digest = hashlib.sha256((module / "go.sum").read_bytes()).hexdigest()[:12]
    executable = root / f"{name}-{digest}"
    with FileLock(root / f".{name}-lock"):
        _compile(executable, TOOLS[name], module, "-s -w")
    return executable


def _root() -> Path:
    root = user_cache_path("ferry") / "cluster-binaries"
    root.mkdir(parents=True, exist_ok=True)
    return root


def kubernetes_version() -> str:
    """As tags name it: v1.34.2."""
    for line in (MODULE / "go.mod").read_text().splitlines():
        words = line.split()
        if words[:1] == ["k8s.io/kubernetes"]:
            return words[1]
    raise BuildFailed(f"{MODULE / 'go.mod'} does not require k8s.io/kubernetes")


def _inputs_digest() -> str:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    digest.update(_linker_flags().encode())
    return digest.hexdigest()[:12]


def _linker_flags() -> str:
    """Clients parse the server's version, which a plain `go build` leaves at v0.0.0."""
    version = kubernetes_version()
    major, minor, _patch = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s", "-w", *(f"-X {p}.{k}={v}" for p in packages for k, v in values.items())])


def _go() -> str:
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if found is None:
        raise BuildFailed(f"Go is not installed. Install Go ≥ 1.24, or name ready binaries by {VARIABLE}.")
    return found


def _build(folder: Path, missing: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    print(f"Building {', '.join(missing)} in {folder} (a quarter of an hour, once) …", file=sys.stderr)  # noqa: T201
    for name in missing:
        _compile(folder / name, ETCD if name == "etcd" else f"k8s.io/kubernetes/cmd/{name}")


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


def main(arguments: list[str]) -> None:
    """Build ahead of the tests, so that theirs is not the time that it takes."""
    whole = arguments == ["node"]
    print((node_binaries() if whole else binaries()).folder)  # noqa: T201
    for name in TOOLS if whole else ("helm",):
        print(tool(name))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
