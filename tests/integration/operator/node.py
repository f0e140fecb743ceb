"""A node whose kubelet is the test: the real scheduler puts pods there, the test says how they fare."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.integration.operator.cluster import Api, Status

Pod = dict[str, Any]
Behaviour = Callable[[Pod], dict[str, Any]]
_EVERY = 0.1  # seconds


def _container(pod: Pod, state: dict[str, Any], *, ready: bool, **more: Any) -> dict[str, Any]:
    container = pod["spec"]["containers"][0]
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
        **more,
    }


def _status(phase: str, container: dict[str, Any], *, ready: bool) -> dict[str, Any]:
    conditions = [
        {"type": name, "status": "True" if ready else "False", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        for name in ("Ready", "ContainersReady")
    ]
    return {"phase": phase, "conditions": conditions, "containerStatuses": [container]}


def serving(pod: Pod) -> dict[str, Any]:
    state = {"running": {"startedAt": "2030-01-01T00:00:00Z"}}
    return _status("Running", _container(pod, state, ready=True), ready=True)


def loading(pod: Pod) -> dict[str, Any]:
    state = {"running": {"startedAt": "2030-01-01T00:00:00Z"}}
    return _status("Running", _container(pod, state, ready=False), ready=False)


def waiting(reason: str, message: str = "") -> Behaviour:
    def behaviour(pod: Pod) -> dict[str, Any]:
        state = {"waiting": {"reason": reason, "message": message}}
        return _status("Pending", _container(pod, state, ready=False), ready=False)

    return behaviour


def out_of_memory(pod: Pod) -> dict[str, Any]:
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    state = {
        "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
    }
    container = _container(pod, state, ready=False, lastState=ended, restartCount=4)
    return _status("Running", container, ready=False)


class Node:
    """Pods behave by their image, else as `default` says. Changing a behaviour changes running pods too."""

    def __init__(self, api: Api, name: str) -> None:
        self.api = api
        self.name = name
        self.default: Behaviour = serving
        self.by_image: dict[str, Behaviour] = {}
        self._told: dict[str, dict[str, Any]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, capacity: dict[str, str], labels: dict[str, str]) -> None:
        manifest = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
        }
        self.api.create("/api/v1/nodes", manifest)
        path = f"/api/v1/nodes/{self.name}"
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        self.api.merge(f"{path}/status", {"status": status})
        # Admission taints a new node until its kubelet has reported.
        self.api.merge(path, {"spec": {"taints": None}})
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(_EVERY):
            try:
                for pod in self.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}")["items"]:
                    self._look_after(pod)
            except (OSError, Status):
                continue  # the API server is being restarted, or the pod has gone meanwhile

    def _look_after(self, pod: Pod) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            self.api.call("DELETE", path, {"gracePeriodSeconds": 0})
            return
        image = pod["spec"]["containers"][0]["image"]
        status = self.by_image.get(image, self.default)(pod)
        if self._told.get(metadata["uid"]) != status:
            self.api.merge(f"{path}/status", {"status": status})
            self._told[metadata["uid"]] = status


@contextmanager
def node(api: Api, name: str, labels: dict[str, str] | None = None, **capacity: str) -> Iterator[Node]:
    """A node for as long as the context lasts."""
    made = Node(api, name)
    made.start({"cpu": "64", "memory": "256Gi", "pods": "2000", **capacity}, labels or {})
    try:
        yield made
    finally:
        made.stop()
        api.delete(f"/api/v1/nodes/{name}")
