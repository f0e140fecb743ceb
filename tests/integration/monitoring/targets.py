"""A real Prometheus that scrapes a real runtime and a real operator's endpoint, all on loopback."""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from aiohttp import web
from monitoring.__main__ import FOLDER, ROOT

from ferry_operator.handlers.freshness import Freshness
from ferry_operator.health import Contact, Health, application
from ferry_operator.metrics import Metrics
from ferry_operator.observing.exported import exported
from ferry_operator.observing.store import Store

RULES = ("runtime-rules.yaml", "operator-rules.yaml")


@dataclass(frozen=True)
class Prometheus:
    """Its HTTP API; see https://prometheus.io/docs/prometheus/latest/querying/api/."""

    client: httpx.Client

    def get(self, path: str, **params: Any) -> Any:
        """:raises AssertionError: with what Prometheus said, when it did not answer with success."""
        answer = self.client.get(f"/api/v1/{path}", params=params).json()
        assert answer["status"] == "success", (params, answer)
        return answer["data"]

    def query(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("query", query=query)["result"]
        return found


@contextmanager
def operator_endpoint() -> Iterator[int]:
    """The operator's HTTP server over a store with one InferenceService; gives the port."""
    started: concurrent.futures.Future[int] = concurrent.futures.Future()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        metrics, store = Metrics(), Store()
        metrics.leader.set(1)
        metrics.services.set(1)
        metrics.reconcile_seconds.observe(0.1)
        metrics.queue_seconds.observe(0.01)
        metrics.api_calls.labels("patch", "deployments.apps", "200").inc()
        store.put_resource(_SERVICE)
        runner = web.AppRunner(application(Health(Freshness(), Contact(), frozenset()), metrics))
        with exported(store, metrics.registry):
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                started.set_result(runner.addresses[0][1])
                await asyncio.Event().wait()
            finally:
                await runner.cleanup()

    task = loop.create_task(serve())

    def run() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield started.result(timeout=30)
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()


@contextmanager
def scraping(executable: Path, folder: Path, runtime: int, operator: int) -> Iterator[Prometheus]:
    """Prometheus with the shipped rules, which knows both targets as the ServiceMonitors would name them."""
    (folder / "prometheus.yml").write_text(yaml.safe_dump(_configuration(runtime, operator)))
    port = _free_port()
    command = [
        str(executable),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                _wait_ready(client, process, folder / "prometheus.log")
                yield Prometheus(client)
        finally:
            process.terminate()
            process.wait(30)


def _configuration(runtime: int, operator: int) -> dict[str, Any]:
    def job(name: str, port: int, **labels: str) -> dict[str, Any]:
        target = {"targets": [f"127.0.0.1:{port}"], "labels": labels}
        return {"job_name": name, "static_configs": [target]}

    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ROOT / FOLDER / name) for name in RULES],
        "scrape_configs": [
            job("ferry-runtime", runtime, namespace="models", service="chat", pod="chat-1"),
            job("ferry-operator", operator, namespace="ferry", service="operator", pod="operator-1"),
        ],
    }


def _wait_ready(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        try:
            if client.get("/-/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_SERVICE = {
    "metadata": {"namespace": "models", "name": "chat", "resourceVersion": "1"},
    "spec": {"replicas": 1},
    "status": {
        "readyReplicas": 1,
        "conditions": [
            {"type": name, "status": "False" if name == "Stalled" else "True"}
            for name in ("Available", "Ready", "Stalled", "CacheReady")
        ],
    },
}
