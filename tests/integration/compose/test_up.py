"""`docker compose up` with a real engine: the parts find each other, and come back when they die.

It needs a Docker engine and two images, which may stand in for the real ones: a runtime that serves
MODEL_NAME (by default that with the fake engine, which the end-to-end tests build) and a Redis or Valkey.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.conftest import missing
from tests.integration.compose import binaries

ROOT = Path(__file__).resolve().parents[3]
_IMAGES = {"FERRY_RUNTIME_IMAGE": "ferry-e2e/fake:e2e", "FERRY_REDIS_IMAGE": "ferry-e2e/redis:e2e"}
_MODEL = {"MODEL_NAME": "file:///opt/e2e/models/model-a"}
_QUESTION = {"prompt": "What is the capital of France?"}

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Project:
    """What `docker compose up` has started."""

    command: list[str]
    environment: dict[str, str]
    client: httpx.Client

    def compose(self, *words: str) -> str:
        done = subprocess.run(
            [*self.command, *words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def inspect(self, service: str) -> dict:
        container = self.compose("ps", "--quiet", service).strip()
        done = subprocess.run(["docker", "inspect", container], capture_output=True, text=True, check=True)
        document: dict = json.loads(done.stdout)[0]
        return document

    def generate(self) -> httpx.Response:
        answer = self.client.post("/generate", json=_QUESTION)
        assert answer.status_code == 200, answer.text
        return answer

    def kill(self, service: str) -> None:
        """As if it had crashed: `docker kill` would count as a wish that it stays down."""
        os.kill(self.inspect(service)["State"]["Pid"], signal.SIGKILL)


def _engine_or_skip(images: dict[str, str]) -> None:
    if shutil.which("docker") is None:
        missing("there is no docker command here", binaries.REQUIRED)
    if subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=30).returncode != 0:
        missing("no Docker engine answers", binaries.REQUIRED)
    for name in images.values():
        known = subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False)
        if known.returncode != 0:
            missing(
                f"the Docker engine has no image {name}: name others in {' and '.join(images)}",
                binaries.REQUIRED,
            )


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    command = binaries.find()
    if command is None:
        missing("no docker compose here: `make docker-compose` builds it", binaries.REQUIRED)
    images = {name: os.environ.get(name, default) for name, default in _IMAGES.items()}
    _engine_or_skip(images)
    # Port 0: the engine chooses one that is free.
    environment = {**os.environ, **_MODEL, **images, "FERRY_PORT": "0"}
    name = f"ferry-test-{uuid.uuid4().hex[:8]}"
    command = [*command, "--project-name", name, "--project-directory", str(ROOT)]
    command += ["--file", str(ROOT / "compose.yaml")]
    started = Project(command, environment, httpx.Client(timeout=30))
    try:
        started.compose("up", "--detach", "--no-build", "--pull", "never", "--wait")
        address = started.compose("port", "runtime", "8000").strip()
        started.client.base_url = f"http://{address}"
        yield started
    finally:
        started.compose("down", "--volumes", "--timeout", "5")
        started.client.close()


def _until(what: str, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 90
    while time.monotonic() < end:
        try:
            if condition():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    pytest.fail(f"no {what} within 90 s")


def test_the_second_answer_comes_from_the_cache_and_outlives_the_runtime(project):
    assert project.generate().headers["x-ferry-cache"] in ("miss", "exact")
    # Written after the answer was given.
    _until(
        "entry in the store", lambda: project.compose("exec", "redis", "redis-cli", "dbsize").strip() != "0"
    )
    project.compose("restart", "--timeout", "5", "runtime")
    _until("runtime", lambda: _port_again(project) and project.client.get("/readyz").status_code == 200)
    assert project.generate().headers["x-ferry-cache"] == "exact"


def test_the_runtime_is_watched_and_starts_again_when_it_dies(project):
    before = project.inspect("runtime")["RestartCount"]
    project.kill("runtime")
    _until("restart", lambda: project.inspect("runtime")["RestartCount"] > before)
    _until("health", lambda: project.inspect("runtime")["State"].get("Health", {}).get("Status") == "healthy")
    _port_again(project)
    project.generate()


def test_answers_come_while_redis_dies_and_returns(project):
    before = project.inspect("redis")["RestartCount"]
    project.kill("redis")
    project.generate()
    _until("restart", lambda: project.inspect("redis")["RestartCount"] > before)
    project.generate()


def test_the_runtime_runs_with_few_rights(project):
    runtime = project.inspect("runtime")
    assert runtime["HostConfig"]["ReadonlyRootfs"] is True
    assert runtime["HostConfig"]["CapDrop"] == ["ALL"]
    assert runtime["Config"]["User"] not in ("", "0", "root")


def test_administrators_routes_are_closed_without_a_key(project):
    assert project.client.get("/recent-requests").status_code == 401
    assert project.client.get("/metrics").status_code == 200


def _port_again(project: Project) -> bool:
    """A container that was started again may have got another port, as it was left to the engine."""
    project.client.base_url = f"http://{project.compose('port', 'runtime', '8000').strip()}"
    return True
