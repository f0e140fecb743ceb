"""The Docker engine: what the harness asks of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from e2e.harness.shell import Missing, StepFailed, run, say

BUILD_SECONDS = 1800.0


@cache
def require_engine() -> None:
    """:raises Missing: no engine answers; says how to get one."""
    if shutil.which("docker") is None:
        raise Missing("There is no docker command here: install a Docker engine (Debian: docker.io).")
    try:
        run("docker", "version", "--format", "{{.Server.Version}}", seconds=30)
    except StepFailed:
        raise Missing(
            "No Docker engine answers: start one (e2e/start-docker), or point DOCKER_HOST at one."
        ) from None


def require_disk(gibibytes: float) -> None:
    """:raises Missing: where the engine keeps its data there is less free than that."""
    root = Path(run("docker", "info", "--format", "{{.DockerRootDir}}").strip())
    if not root.is_dir():
        return  # an engine on another machine
    free = shutil.disk_usage(root).free / 2**30
    if free < gibibytes:
        raise Missing(f"{root} has {free:.0f} GiB free, and this needs {gibibytes:.0f}: docker system prune?")


@cache
def _environment() -> dict[str, str]:
    """The classic builder where the buildx plug-in is not installed: newer clients have no other."""
    has_buildx = "Version" in run("docker", "info", check=False) and _succeeds("docker", "buildx", "version")
    return {} if has_buildx else {"DOCKER_BUILDKIT": "0"}


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0


def image_id(name: str) -> str | None:
    """The image's digest, None where the engine has no image of that name."""
    found = run("docker", "image", "inspect", "--format", "{{.Id}}", name, check=False).strip()
    return found or None


def build(
    name: str,
    dockerfile: Path,
    context: Path,
    *,
    arguments: Mapping[str, str] | None = None,
    target: str | None = None,
) -> str:
    """Build and tag an image; the engine's cache makes an unchanged one instant. Returns its digest."""
    options = [word for key, value in (arguments or {}).items() for word in ("--build-arg", f"{key}={value}")]
    if target is not None:
        options += ["--target", target]
    say(f"building {name}")
    # The host's network: package registries are reached exactly as from this machine.
    command = ("docker", "build", "--network", "host", "--tag", name, "--file", dockerfile, *options, context)
    run(*command, seconds=BUILD_SECONDS, environment=_environment())
    found = image_id(name)
    if found is None:
        raise StepFailed(f"{name} was built, yet the engine does not know it")
    return found


def import_root(name: str, script: Path) -> None:
    """Make an image of the root file system that ``script`` prints as a tar stream."""
    say(f"making {name} from Debian's packages")
    with subprocess.Popen([script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as printing:
        done = subprocess.run(
            ["docker", "import", "-", name],
            stdin=printing.stdout,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_SECONDS,
        )
    if printing.returncode != 0 or done.returncode != 0:
        raise StepFailed(f"{script.name} failed: is debootstrap installed? {done.stderr[-500:]}")


def pull(name: str) -> bool:
    """Whether a registry answered with the image."""
    if os.environ.get("E2E_OFFLINE"):
        return False
    return image_id(name) is not None or _succeeds("timeout", "60", "docker", "pull", "--quiet", name)


def tag(name: str, other: str) -> None:
    run("docker", "tag", name, other)


def save(names: list[str], target: Path) -> None:
    """Images as one archive that containerd imports."""
    run("docker", "save", "--output", target, *names, seconds=BUILD_SECONDS)
