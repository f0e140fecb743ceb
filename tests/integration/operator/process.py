"""The operator as a process of its own, with the rights that the chart gives it and no others."""

from __future__ import annotations

import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from tests.integration.operator.cluster import Api, Cluster, Process, free_port, wait_for

ROOT = Path(__file__).resolve().parents[3]
_RULES = ROOT / "charts" / "ferry" / "files"
ACCOUNT = "ferry-operator"


def chart_rules(name: str) -> list[dict[str, Any]]:
    """What a role of the chart lists."""
    found: list[dict[str, Any]] = yaml.safe_load((_RULES / f"{name}.yaml").read_text())
    return found


def grant(api: Api, namespace: str, *, cluster_wide: bool) -> str:
    """Make the operator's ServiceAccount and its roles as the chart does; returns a token of it."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.create(account, {"metadata": {"name": ACCOUNT}})
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    local = f"{rbac}/namespaces/{namespace}"
    lease = chart_rules("lease-role")
    if cluster_wide:
        name = f"ferry-operator-{namespace}"
        rules = chart_rules("role") + chart_rules("cluster-role")
        api.create(f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        binding = {
            "metadata": {"name": name},
            "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        }
        api.create(f"{rbac}/clusterrolebindings", binding)
    else:
        lease = lease + chart_rules("role")
    api.create(f"{local}/roles", {"metadata": {"name": ACCOUNT}, "rules": lease})
    binding = {
        "metadata": {"name": ACCOUNT},
        "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT},
    }
    api.create(f"{local}/rolebindings", binding)
    request = {"spec": {"expirationSeconds": 7200}}
    token: str = api.create(f"{account}/{ACCOUNT}/token", request)["status"]["token"]
    return token


def admit(api: Api, namespace: str, home: str) -> None:
    """Give the operator of another namespace (its `home`) its Role in this one, as the chart does."""
    local = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    api.create(f"{local}/roles", {"metadata": {"name": ACCOUNT}, "rules": chart_rules("role")})
    binding = {
        "metadata": {"name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": home}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT},
    }
    api.create(f"{local}/rolebindings", binding)


class Operator:
    """One operator process, started and stopped as often as a test likes."""

    def __init__(self, folder: Path, api: Api, environment: dict[str, str]) -> None:
        self.port = free_port()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.process = Process(
            [sys.executable, "-m", "ferry_operator"],
            folder / "operator.log",
            {
                "KUBECONFIG": str(api.kubeconfig(folder / "kubeconfig")),
                "FERRY_HTTP_HOST": "127.0.0.1",
                "FERRY_HTTP_PORT": str(self.port),
                **environment,
            },
        )

    def start(self) -> Operator:
        self.process.start()
        return self

    def wait_ready(self) -> Operator:
        wait_for("the operator to be ready", lambda: self.answers("/readyz"), 60)
        return self

    def wait_leading(self) -> Operator:
        wait_for("the operator to lead", lambda: self.metric("ferry_operator_leader") == 1.0, 60)
        return self

    def answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError:
            return False

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return sum(
            float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{"))
        )

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.stop(signal.SIGKILL)

    def restart(self) -> Operator:
        self.stop()
        return self.start().wait_ready()


@contextmanager
def operator(cluster: Cluster, namespace: str, folder: Path, **environment: str) -> Iterator[Operator]:
    """An operator for one namespace, with a Role of that namespace alone."""
    token = grant(cluster.api, namespace, cluster_wide=False)
    api = Api(cluster.api.url, token, cluster.api.ca)
    scope = {"FERRY_SCOPE": namespace, "POD_NAMESPACE": namespace, **environment}
    made = Operator(folder, api, scope)
    try:
        yield made.start().wait_ready().wait_leading()
    finally:
        made.stop()
