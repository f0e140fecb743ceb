"""What every report states first: hardware, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("torch", "transformers", "tokenizers", "fastapi", "uvicorn", "httpx")


@dataclass(frozen=True, slots=True)
class Environment:
    processor: str
    cores: int
    memory_gib: float
    instruction_sets: str
    python: str
    packages: dict[str, str]
    commit: str
    load_average: float

    def lines(self) -> list[str]:
        return [f"{key}: {value}" for key, value in asdict(self).items()]


def read_environment() -> Environment:
    fields = dict(
        (part.strip() for part in line.split(":", 1))
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if ":" in line
    )
    flags = set(fields.get("flags", "").split())
    interesting = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
    return Environment(
        processor=fields.get("model name", platform.processor()),
        cores=os.cpu_count() or 1,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        instruction_sets=" ".join(name for name in interesting if name in flags),
        python=platform.python_version(),
        packages={name: version(name) for name in PACKAGES},
        commit=_commit(),
        load_average=round(os.getloadavg()[0], 2),
    )


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{commit}-dirty" if git("status", "--porcelain", "--untracked-files=no") else commit
