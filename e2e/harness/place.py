"""One scenario's namespace, and what a story does there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from e2e.harness.cluster import Cluster, wait_for
from e2e.harness.images import Images
from e2e.harness.table import Table
from e2e.harness.traffic import KINDS, Record, Traffic, restricted

_COMPONENT = "serving.ferry.dev/component"
_SERVICE = "serving.ferry.dev/inferenceservice"
_RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
_READY_SECONDS = 180.0
SETTLED_SECONDS = 10.0
"""After Ready a node's kube-proxy may for a moment not know the new pod, or still know the old one."""


@dataclass(frozen=True)
class Answer:
    """What one request was answered with."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def text(self) -> str:
        return str(self.body["choices"][0]["message"]["content"])

    @property
    def made_by(self) -> str:
        """The pod whose engine made the text."""
        return self.text.split()[1]

    @property
    def cache(self) -> str:
        return self.headers.get("x-ferry-cache", "")


@dataclass
class Place:
    """A namespace that enforces the restricted Pod Security Standard."""

    cluster: Cluster
    images: Images
    namespace: str
    table: Table
    scenario: str
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 1000)))

    def make(self) -> None:
        # On a cluster that was kept, that of the run before may still be going.
        self.cluster.kubectl("delete", "namespace", self.namespace, "--ignore-not-found", "--timeout=120s")
        labels = {"metadata": {"name": self.namespace, "labels": _RESTRICTED}}
        document = {"apiVersion": "v1", "kind": "Namespace", **labels}
        self.cluster.kubectl("apply", "--filename", "-", text=yaml.safe_dump(document))

    def remove(self) -> None:
        self.cluster.kubectl("delete", "namespace", self.namespace, "--wait=false", "--ignore-not-found")

    def kubectl(self, *words: str, text: str | None = None, check: bool = True, seconds: float = 120) -> str:
        return self.cluster.kubectl(
            "--namespace", self.namespace, *words, text=text, check=check, seconds=seconds
        )

    def apply(self, manifest: Path, **replaced: str) -> None:
        """A manifest of the scenario's folder, with ${NAME} replaced."""
        text = manifest.read_text()
        for name, value in replaced.items():
            text = text.replace(f"${{{name}}}", value)
        self.kubectl("apply", "--filename", "-", text=text)

    def patch(self, name: str, spec: dict[str, Any]) -> None:
        """Change fields of an InferenceService."""
        self.kubectl("patch", "infsvc", name, "--type=merge", "--patch", json.dumps({"spec": spec}))

    def service(self, name: str) -> dict[str, Any]:
        return self.cluster.get("infsvc", name, "--namespace", self.namespace)

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """A condition that is about the current generation; empty until there is one."""
        found = self.service(name)
        for condition in found.get("status", {}).get("conditions", ()):
            if (
                condition["type"] == kind
                and condition["observedGeneration"] == found["metadata"]["generation"]
            ):
                return dict(condition)
        return {}

    def wait_ready(self, name: str, seconds: float = _READY_SECONDS) -> float:
        """Until the current generation serves; returns the seconds that it took."""
        began = time.monotonic()
        self.wait_condition(name, "Ready", "True", seconds)
        return time.monotonic() - began

    def wait_condition(self, name: str, kind: str, status: str, seconds: float = 120) -> None:
        wait_for(
            f"{kind} of {name} to be {status}",
            lambda: self.condition(name, kind).get("status") == status,
            seconds,
        )

    def wait_trouble(self, name: str, *reasons: str, seconds: float = 120) -> str:
        """Until Ready is False for one of the reasons; returns the message."""

        def told() -> str:
            ready = self.condition(name, "Ready")
            return str(ready["message"]) if ready and ready["reason"] in reasons else ""

        return wait_for(f"{name} to tell {' or '.join(reasons)}", told, seconds)

    def pods(self, name: str, component: str = "runtime") -> list[dict[str, Any]]:
        """Pods of a component that are not going away."""
        selector = f"{_SERVICE}={name},{_COMPONENT}={component}"
        found = self.cluster.get("pods", "--namespace", self.namespace, "--selector", selector)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def pod_names(self, name: str, component: str = "runtime") -> set[str]:
        return {pod["metadata"]["name"] for pod in self.pods(name, component)}

    def url(self, name: str) -> str:
        return str(self.service(name)["status"]["url"]).rstrip("/")

    @contextmanager
    def traffic(self, name: str, *options: str, node: str | None = None) -> Iterator[Traffic]:
        """Requests while the block runs. Its record goes into the table; the test asserts on it."""
        number = next(self._numbers)
        made = Traffic(self.cluster, self.namespace, self.images.fake, f"traffic-{number}")
        made.start(self.url(name), name, *options, node=node)
        try:
            yield made
        finally:
            self.table.add(self.scenario, made.stop())

    def ask(self, url: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request from a pod of this namespace."""
        self._client()
        order = json.dumps({"url": url + path, "body": body, "headers": headers})
        # Not by standard input: where the program has read all of it, kubectl may lose what it says.
        said = self.kubectl("exec", "client", "--", "python", "/opt/e2e/ask.py", order)
        return Answer(**json.loads(said))

    def chat(self, name: str, question: str, *, url: str | None = None, **headers: str) -> Answer:
        """One question, deterministic, so that it may be cached."""
        body = {
            "model": name,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": 24,
            "temperature": 0,
        }
        return self.ask(url or self.url(name), "/v1/chat/completions", body, **headers)

    def first_answer(self, name: str, question: str) -> Answer:
        """As a client has it who asks again while its node has not heard of the pod."""
        return wait_for(f"{name} to answer", lambda: self.chat(name, question), SETTLED_SECONDS)

    def note(self, what: str, seconds: float) -> None:
        self.table.note(self.scenario, what, seconds)

    def _client(self) -> None:
        if "client" not in self.kubectl("get", "pods", "--output=name"):
            spec = restricted(self.images.fake, ["sleep", "3600"])
            document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": spec}
            self.cluster.apply(document, namespace=self.namespace)
            self.kubectl("wait", "pod/client", "--for=condition=Ready", "--timeout=60s")


def expect_no_failure(record: Record) -> None:
    """Every request was answered, and each kind of client has sent some."""
    assert {outcome.kind for outcome in record.outcomes} == KINDS
    assert record.causes == {}, record.causes
