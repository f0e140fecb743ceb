"""Starting a Docker engine leaves either one that answers and its process id, or nothing."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.conftest import ROOT


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """An environment whose engine runs, and answers once the file `answers` is there."""
    for name, script in {
        "dockerd": f'echo $$ >"{tmp_path}/engine"; echo "about to listen"; exec sleep 60',
        "docker": f'[ -e "{tmp_path}/answers" ]',
        "debootstrap": "exit 1",
        "apt-get": "exit 1",
    }.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return {"PATH": path, "E2E_DOCKER_STATE": str(tmp_path / "state"), "E2E_DOCKER_SECONDS": "2"}


def start(machine: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "e2e" / "start-docker")]
    return subprocess.run(command, check=False, env=machine, capture_output=True, text=True, timeout=30)


def ended(pid: int) -> bool:
    for _ in range(100):
        status = Path(f"/proc/{pid}/status")
        if not status.exists() or "\nState:\tZ" in status.read_text():
            return True
        time.sleep(0.05)
    return False


def test_an_engine_that_is_too_slow_is_not_left_behind(machine: dict[str, str], tmp_path: Path) -> None:
    done = start(machine)
    assert done.returncode == 1
    assert "about to listen" in done.stderr
    assert ended(int((tmp_path / "engine").read_text()))
    assert not (tmp_path / "state" / "pid").exists()


def test_one_that_answers_is_told_by_its_process_id(machine: dict[str, str], tmp_path: Path) -> None:
    daemon = tmp_path / "bin" / "dockerd"
    daemon.write_text(daemon.read_text().replace("echo $$", f'touch "{tmp_path}/answers"; echo $$', 1))
    done = start(machine)
    assert done.returncode == 0
    pid = int(Path(done.stdout.strip()).read_text())
    assert pid == int((tmp_path / "engine").read_text())
    again = start(machine)
    assert (again.returncode, again.stdout) == (0, "")
    os.kill(pid, 15)
    assert ended(pid)
