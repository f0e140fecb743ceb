"""The built-in autoscaler, with the load that pods report themselves."""

from __future__ import annotations

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.integration.operator.cluster import Status, wait_for
from tests.integration.operator.node import serving
from tests.integration.operator.process import operator

from ferry_api.pod_layout import HTTP_PORT

_IMAGE = "example.com/runtime:loaded"


class Pods:
    """Runtime pods at loopback addresses of this test process's own, all of them under the same load."""

    def __init__(self):
        number = os.getpid() % 60_000
        self._prefix = f"127.{number // 250 + 1}.{number % 250 + 1}"
        self._addresses = {}
        self.waiting = self.running = 0
        self.servers = []

    def __call__(self, pod):
        """What a kubelet would say of such a pod."""
        free = len(self._addresses) + 1
        number = self._addresses.setdefault(pod["metadata"]["uid"], free)
        if number == free:
            self.listen(f"{self._prefix}.{number}")
        address = f"{self._prefix}.{number}"
        return {**serving(pod), "podIP": address, "podIPs": [{"ip": address}]}

    def listen(self, address):
        pods = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = (
                    f"ferry_num_requests_waiting {float(pods.waiting)}\n"
                    f"ferry_num_requests_running {float(pods.running)}\n"
                )
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format, *args):  # noqa: A002  (the base class's name)
                return

        server = ThreadingHTTPServer((address, HTTP_PORT), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.servers.append(server)


@pytest.fixture
def pods(machine):
    made = Pods()
    machine.by_image.clear()
    machine.by_image[_IMAGE] = made
    yield made
    machine.by_image.clear()
    for server in made.servers:
        server.shutdown()
        server.server_close()


def test_replicas_follow_the_load_and_survive_a_restart(plane, namespace, service, pods, tmp_path):
    with operator(plane, namespace, tmp_path / "operator", FERRY_SCALING_SECONDS="1") as ferry:
        spec = {"engine": {"image": _IMAGE}, "scaling": {"maxReplicas": 3, "scaleDownDelay": "4s"}}
        chat = service(**spec)
        chat.wait("Ready", "True")
        assert chat.get()["spec"]["replicas"] == 1
        pods.waiting, pods.running = 10, 8
        wait_for("more replicas", lambda: chat.get()["spec"]["replicas"] == 3, 20)
        chat.wait("Ready", "True")
        assert chat.deployment()["spec"]["replicas"] == 3
        assert "ScaledUp" in {reason for _, reason, _ in chat.events()}
        ferry.restart().wait_leading()
        chat.apply(**spec)  # a manifest that says nothing of replicas
        chat.wait("Ready", "True")
        assert chat.get()["spec"]["replicas"] == 3
        pods.waiting, pods.running = 0, 0
        wait_for("fewer replicas", lambda: chat.get()["spec"]["replicas"] == 1, 30)
        chat.wait("Ready", "True")
        assert "ScaledDown" in {reason for _, reason, _ in chat.events()}


def test_zero_by_hand_stays_zero(plane, namespace, service, pods, tmp_path):
    with operator(plane, namespace, tmp_path / "operator", FERRY_SCALING_SECONDS="1"):
        chat = service(engine={"image": _IMAGE}, scaling={"maxReplicas": 3, "scaleDownDelay": "0s"})
        chat.wait("Ready", "True")
        chat.api.merge(f"{chat.own}/scale", {"spec": {"replicas": 0}})
        pods.waiting = 50
        chat.wait("Ready", "False", "ScaledToZero")
        with pytest.raises(AssertionError):
            wait_for("a count of its own", lambda: chat.get()["spec"]["replicas"] != 0, 3)


def test_a_minimum_of_zero_is_refused_where_nothing_could_tell_of_requests(service):
    with pytest.raises(Status) as refusal:
        service(scaling={"minReplicas": 0, "maxReplicas": 3})
    assert "must be at least 1 with controller Builtin" in refusal.value.message
    service(scaling={"controller": "External", "minReplicas": 0, "maxReplicas": 3})
