"""A real `ferry run` as a child process, for measuring from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    pid: int
    ready_seconds: float

    def resident_megabytes(self) -> dict[str, float]:
        """Resident memory of the server's own process and of its children, by role."""
        root = psutil.Process(self.pid)
        sizes = {"http": root.memory_info().rss / 1e6}
        for child in root.children(recursive=True):
            command = " ".join(child.cmdline())
            role = next((name for name in ("engine", "embedding", "valkey") if name in command), child.name())
            sizes[role] = sizes.get(role, 0.0) + child.memory_info().rss / 1e6
            if role == "engine":
                sizes["of it keys and values"] = keys_and_values(child)
        return sizes


def keys_and_values(engine: psutil.Process) -> float:
    """MB of an engine's keys and values: in anonymous memory for which it asked for small pages."""
    size, resident = 0.0, 0.0
    for line in Path(f"/proc/{engine.pid}/smaps").read_text().splitlines():
        if line.startswith("Rss:"):
            resident = int(line.split()[1]) * 1024 / 1e6
        elif line.startswith("VmFlags:") and " nh" in line:
            size += resident
    return size


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def serve(
    manifest: Path,
    *,
    environment: dict[str, str] | None = None,
    module: str = "ferry_runtime.cli",
    limit: float = 180,
) -> Iterator[Server]:
    """Start `ferry run`, wait until it is ready, and stop it whatever happens.

    ``module`` may be another one with the same command line.
    """
    port = free_port()
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, "run", str(manifest), "--port", str(port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_ready(url, process, started + limit)
            yield Server(url, process.pid, time.monotonic() - started)
        except BaseException:
            log.seek(0)
            print("".join(log.readlines()[-40:]), file=sys.stderr)
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(45)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_ready(url: str, process: subprocess.Popen[bytes], deadline: float) -> None:
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"ferry run ended with {process.returncode} before it was ready")
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz", timeout=2).status_code == 200:
                return
        time.sleep(0.05)
    raise RuntimeError("ferry run was not ready in time")
