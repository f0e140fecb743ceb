"""Continuous requests from inside the cluster, and the record of what became of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from e2e.harness.cluster import Cluster, wait_for
from e2e.harness.shell import say

KINDS = frozenset({"kept", "new", "stream"})
"""Clients of `fake/traffic.py`: with one connection, with one for each request, with streams."""
_FOLDER = "/opt/e2e"


@dataclass(frozen=True)
class Outcome:
    """One request. ``status`` is 0 where there was no answer."""

    kind: str
    at: float
    seconds: float
    status: int
    error: str | None = None
    cache: str | None = None
    text: str = ""

    @property
    def failed(self) -> bool:
        return self.status != 200 or self.error is not None


@dataclass(frozen=True)
class Record:
    """What was sent, in the order in which it ended."""

    outcomes: tuple[Outcome, ...] = ()

    @property
    def sent(self) -> int:
        return len(self.outcomes)

    @property
    def failures(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.failed]

    @property
    def causes(self) -> dict[str, int]:
        """How often each failure came, for the message of an assertion."""
        return dict(Counter(f"{o.kind}: {o.status} {o.error or ''}".strip() for o in self.failures))

    def answers(self) -> Counter[str]:
        """First words of the answers: the fake engine says there which model and which pod answered."""
        return Counter(" ".join(outcome.text.split()[:2]) for outcome in self.outcomes if outcome.text)


def restricted(image: str, command: list[str], *, node: str | None = None) -> dict[str, Any]:
    """A pod that the restricted Pod Security Standard admits."""
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "client",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": command,
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }
    return {**pod, "nodeSelector": {"kubernetes.io/hostname": node}} if node else pod


@dataclass
class Traffic:
    """A pod that sends requests until `stop`."""

    cluster: Cluster
    namespace: str
    image: str
    name: str
    record: Record = field(default_factory=Record)

    def start(self, url: str, model: str, *options: str, node: str | None = None) -> None:
        """Returns when the first answers have come."""
        command = ["python", f"{_FOLDER}/traffic.py", url, "--model", model, *options]
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name},
            "spec": restricted(self.image, command, node=node),
        }
        self.cluster.apply(document, namespace=self.namespace)
        ready = (f"pod/{self.name}", "--for=condition=Ready", "--timeout=60s")
        self.cluster.kubectl("wait", *ready, "--namespace", self.namespace)
        self.more(9)

    def more(self, count: int, seconds: float = 60) -> None:
        """Wait until so many more requests have ended well."""
        goal = self._good() + count
        wait_for(f"{count} answers", lambda: self._good() >= goal, seconds)

    def until(self, what: str, true: Callable[[Record], bool], seconds: float = 60) -> None:
        wait_for(what, lambda: true(self.so_far()), seconds)

    def so_far(self) -> Record:
        lines = self.cluster.kubectl("logs", self.name, "--namespace", self.namespace).splitlines()
        return Record(tuple(Outcome(**json.loads(line)) for line in lines if line.startswith("{")))

    def stop(self) -> Record:
        """End it; every request that was begun is waited for."""
        where = ("--namespace", self.namespace)
        self.cluster.kubectl("exec", self.name, *where, "--", "touch", "/tmp/stop")  # noqa: S108
        self.cluster.kubectl(
            "wait", f"pod/{self.name}", *where, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=90s"
        )
        self.record = self.so_far()
        say(f"{self.record.sent} requests, {len(self.record.failures)} failed {self.record.causes or ''}")
        return self.record

    def _good(self) -> int:
        return sum(not outcome.failed for outcome in self.so_far().outcomes)
