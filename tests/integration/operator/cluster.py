"""A Kubernetes control plane of this test run's own: etcd, API server, controller-manager, scheduler.

Real server-side apply, CEL, subresources, watches, RBAC, garbage collection and ReplicaSets. There is no
kubelet: pods exist, and the tests say in their status what a kubelet would.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.integration.operator.binaries import Binaries, binaries

ADMIN_TOKEN = "admin-token"
_AUDIT = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


class Status(Exception):
    """An answer of the API server that is not a success."""

    def __init__(self, code: int, body: dict[str, Any]) -> None:
        super().__init__(f"{code} {body.get('reason')}: {body.get('message')}")
        self.code = code
        self.body = body

    @property
    def message(self) -> str:
        return str(self.body.get("message"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_for(what: str, check: Callable[[], Any], seconds: float = 30.0, every: float = 0.05) -> Any:
    """The first truthy answer of `check`; fails with what was waited for."""
    end = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < end:
        try:
            last = check()
        except (OSError, KeyError, IndexError, Status) as error:
            last = error
        if last and not isinstance(last, Exception):
            return last
        time.sleep(every)
    raise AssertionError(f"waited {seconds:.0f} s for {what}; last: {last!r}")


# Of util-linux: a test run that is killed leaves no control plane behind.
_MORTAL = ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()


@dataclass
class Process:
    """One component, its log in a file."""

    command: list[str]
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.running = subprocess.Popen(
                [*_MORTAL, *self.command],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.running is None:
            return
        if self.running.poll() is None:
            self.running.send_signal(how)
        try:
            self.running.wait(20)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait()
        self.running = None

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""


def _body(data: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(data)
    except ValueError:
        return {"reason": "Unknown", "message": data.decode(errors="replace")}
    return found


class _Connection(http.client.HTTPSConnection):
    """Goes with its thread, quietly."""

    def __del__(self) -> None:
        self.close()


@dataclass
class Api:
    """A small synchronous client for the tests, independent of the operator's.

    Each thread keeps one connection: tests ask often, and a handshake costs more than an answer.
    """

    url: str
    token: str
    ca: Path
    _local: threading.local = field(default_factory=threading.local, repr=False, compare=False)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": content_type,
            "Accept": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        try:
            code, answer = self._exchange(method, path, data, headers)
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        if code >= 300:
            raise Status(code, _body(answer))
        return _body(answer)

    def _exchange(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        kept: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        while True:
            connection = kept or self._connect()
            self._local.connection = None
            try:
                connection.request(method, path, data, headers)
                with connection.getresponse() as answer:
                    found = answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                if kept is None:
                    raise
                kept = None  # the server has closed it since, or was started anew: once more with a new one
            else:
                self._local.connection = connection
                return found

    def _connect(self) -> http.client.HTTPSConnection:
        host, _, port = self.url.removeprefix("https://").partition(":")
        context = ssl.create_default_context(cafile=str(self.ca))
        return _Connection(host, int(port), timeout=20, context=context)

    def get(self, path: str) -> dict[str, Any]:
        return self.call("GET", path)

    def find(self, path: str) -> dict[str, Any] | None:
        try:
            return self.call("GET", path)
        except Status as error:
            if error.code == 404:
                return None
            raise

    def apply(self, path: str, body: Any, manager: str = "tester", *, force: bool = False) -> dict[str, Any]:
        query = f"?fieldManager={manager}&force={'true' if force else 'false'}"
        return self.call("PATCH", path + query, body, "application/apply-patch+yaml")

    def merge(self, path: str, body: Any) -> dict[str, Any]:
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def create(self, path: str, body: Any) -> dict[str, Any]:
        return self.call("POST", path, body)

    def delete(self, path: str, policy: str = "Background") -> None:
        """Also of what is gone already."""
        try:
            self.call("DELETE", path, {"propagationPolicy": policy})
        except Status as error:
            if error.code != 404:
                raise

    def kubeconfig(self, path: Path) -> Path:
        ca = base64.b64encode(self.ca.read_bytes()).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority-data": ca}}],
            "users": [{"name": "test", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path.write_text(yaml.safe_dump(document))
        return path


@dataclass
class Cluster:
    """Everything of one control plane lies in one folder and goes with it."""

    folder: Path
    parts: Binaries
    port: int
    etcd: Process
    apiserver: Process
    controllers: Process
    scheduler: Process
    api: Api

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    def audit(self, since: int = 0) -> list[dict[str, Any]]:
        """Audit events from a position of the log on."""
        with self.audit_log.open("rb") as log:
            log.seek(since)
            lines = log.read().split(b"\n")
        return [json.loads(line) for line in lines if line.endswith(b"}")]

    def audit_position(self) -> int:
        return self.audit_log.stat().st_size

    def wait_ready(self) -> None:
        def ready() -> bool:
            try:
                return bool(self.api.get("/api/v1/namespaces/default"))
            except Status:
                return False

        wait_for("the API server", ready, 90)

    def namespace(self, name: str) -> str:
        """Make a namespace, with the ServiceAccount that pods of it need."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        wait_for(
            "the namespace's ServiceAccount",
            lambda: self.api.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"),
        )
        return name


def _certificates(folder: Path) -> None:
    """A key for ServiceAccount tokens; the API server makes its own serving certificate."""
    subprocess.run(
        ["openssl", "genrsa", "-out", str(folder / "sa.key"), "2048"], check=True, capture_output=True
    )
    (folder / "tokens.csv").write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n')
    (folder / "audit.yaml").write_text(_AUDIT)


def _etcd(folder: Path, parts: Binaries, client: int, peer: int) -> Process:
    data = folder / "etcd"
    command = [
        str(parts.etcd),
        f"--data-dir={data}",
        "--unsafe-no-fsync",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
    ]
    return Process(command, folder / "etcd.log")


def _apiserver(folder: Path, parts: Binaries, port: int, etcd: int) -> Process:
    command = [
        str(parts.apiserver),
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certs'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'sa.key'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        f"--audit-policy-file={folder / 'audit.yaml'}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    ]
    return Process(command, folder / "apiserver.log")


def _client_of(name: str, executable: Path, folder: Path, *arguments: str) -> Process:
    command = [
        str(executable),
        f"--kubeconfig={folder / 'admin.kubeconfig'}",
        "--leader-elect=false",
        "--secure-port=0",
        *arguments,
    ]
    return Process(command, folder / f"{name}.log")


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A running control plane; its processes are ended whatever happens."""
    parts = binaries()
    port, etcd_port, peer_port = free_port(), free_port(), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    _certificates(folder)
    api = Api(f"https://127.0.0.1:{port}", ADMIN_TOKEN, folder / "certs" / "apiserver.crt")
    made = Cluster(
        folder=folder,
        parts=parts,
        port=port,
        etcd=_etcd(folder, parts, etcd_port, peer_port),
        apiserver=_apiserver(folder, parts, port, etcd_port),
        controllers=_client_of(
            "controller-manager",
            parts.controller_manager,
            folder,
            f"--service-account-private-key-file={folder / 'sa.key'}",
            "--use-service-account-credentials=false",
            "--controllers=garbage-collector-controller,namespace-controller,deployment-controller,"
            "replicaset-controller,serviceaccount-controller,disruption-controller,"
            "horizontal-pod-autoscaler-controller,persistentvolumeclaim-protection-controller",
            "--horizontal-pod-autoscaler-sync-period=2s",
        ),
        scheduler=_client_of("scheduler", parts.scheduler, folder),
        api=api,
    )
    try:
        made.etcd.start()
        made.apiserver.start()
        wait_for("the API server's certificate", api.ca.exists, 60)
        made.wait_ready()
        api.kubeconfig(folder / "admin.kubeconfig")
        made.controllers.start()
        made.scheduler.start()
        yield made
    finally:
        for part in (made.scheduler, made.controllers, made.apiserver, made.etcd):
            part.stop()
