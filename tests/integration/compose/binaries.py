"""Where `docker compose` lies: Docker's plug-in, or the same program built from its Go module.

Run as a script it builds it (five minutes on two cores, once) and prints the path.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

VARIABLE = "FERRY_DOCKER_COMPOSE"
REQUIRED = "FERRY_COMPOSE"
"""A variable that says "required" where nothing of compose may be skipped."""
_MODULE = Path(__file__).resolve().parent / "tool"
_PACKAGE = "github.com/docker/compose/v2/cmd"


def find() -> list[str] | None:
    """The command's first words; None where there is none."""
    if given := os.environ.get(VARIABLE):
        return [given]
    if _built().is_file():
        return [str(_built())]
    docker = shutil.which("docker")
    if docker is None:
        return None
    asked = subprocess.run([docker, "compose", "version"], capture_output=True, check=False)
    return [docker, "compose"] if asked.returncode == 0 else None


def build() -> Path:
    """:raises subprocess.CalledProcessError: with what Go said on stderr."""
    target = _built()
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_suffix(".lock")):
        if not target.is_file():
            go = shutil.which("go") or "/usr/local/go/bin/go"
            partial = target.with_suffix(".partial")
            flags = "-s -w -X github.com/docker/compose/v2/internal.Version=v2"
            environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}
            command = [go, "build", "-trimpath", "-ldflags", flags, "-o", str(partial), _PACKAGE]
            subprocess.run(command, cwd=_MODULE, env=environment, check=True)
            partial.rename(target)
    return target


def _built() -> Path:
    digest = hashlib.sha256((_MODULE / "go.sum").read_bytes()).hexdigest()[:12]
    return user_cache_path("ferry") / "compose" / f"docker-compose-{digest}"


if __name__ == "__main__":
    print(build())  # noqa: T201
