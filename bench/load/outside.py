"""An outside opinion: guidellm, a public load tool, against the same endpoint.

It brings its own torch (5.6 GB), so it lives in an environment of its own under the user's cache folder,
which `make guidellm` sets up; without it the report says that it is missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferry_runtime.models.cachefolder import default_cache_folder

USERS = 4
SECONDS = 20
PROMPT_TOKENS, OUTPUT_TOKENS = 64, 32
_LIMIT_SECONDS = 150


@dataclass(frozen=True, slots=True)
class Opinion:
    """``figures``: what guidellm says, by its own names and units; empty with a ``problem``."""

    version: str
    command: str
    figures: dict[str, float]
    problem: str = ""


def guidellm_path() -> Path:
    """GUIDELLM, else where `make guidellm` puts it; perhaps not there."""
    override = os.environ.get("GUIDELLM")
    return Path(override) if override else default_cache_folder() / "tools" / "guidellm" / "bin" / "guidellm"


def ask_guidellm(url: str, model: str, tokenizer: Path) -> Opinion:
    """Never raises for what guidellm does: an opinion that is not to be had is said to be missing."""
    program = guidellm_path()
    if not program.exists():
        return Opinion("", "", {}, "guidellm is not installed here; `make guidellm` installs it (5.6 GB).")
    with tempfile.TemporaryDirectory(prefix="ferry-load-") as folder:
        output = Path(folder) / "opinion.json"
        arguments = _arguments(url, model, tokenizer, output)
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
        try:
            ended = subprocess.run(
                [program, *arguments], capture_output=True, text=True, check=False, cwd=folder,
                env=environment, timeout=_LIMIT_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Opinion("", "", {}, f"guidellm did not end within {_LIMIT_SECONDS} s.")
        if not output.exists():
            return Opinion("", "", {}, f"guidellm ended with {ended.returncode} and wrote no result.")
        # A report is read elsewhere: the model's name says more there than a folder of this machine.
        shown = [word.replace(str(tokenizer), tokenizer.name) for word in arguments[:-2]]
        try:
            return read_opinion(json.loads(output.read_text()), " ".join(("guidellm", *shown)))
        except (ValueError, LookupError, TypeError) as error:
            return Opinion("", "", {}, f"guidellm's result could not be read ({type(error).__name__}).")


def _arguments(url: str, model: str, tokenizer: Path, output: Path) -> list[str]:
    return [
        "run", "--disable-console",
        "--backend", f"kind=openai_http,target={url},model={model}",
        "--tokenizer", f"kind=huggingface_auto,model={tokenizer}",
        "--data", f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={OUTPUT_TOKENS}",
        "--profile", f"kind=concurrent,streams={USERS}",
        "--constraint", f"kind=max_duration,seconds={SECONDS}",
        "--output", f"kind=json,path={output}",
    ]  # fmt: skip


def read_opinion(document: dict[str, Any], command: str) -> Opinion:
    """Of guidellm's JSON report: its one benchmark, over the requests that succeeded."""
    metrics = document["benchmarks"][0]["metrics"]
    totals = metrics["request_totals"]
    figures: dict[str, float] = {f"requests, {kind}": totals[kind] for kind in ("successful", "errored")}
    for name in ("requests_per_second", "output_tokens_per_second"):
        figures[name] = metrics[name]["successful"]["mean"]
    for name in ("request_latency", "time_to_first_token_ms", "inter_token_latency_ms"):
        percentiles = metrics[name]["successful"]["percentiles"]
        figures |= {f"{name}, {at}": percentiles[at] for at in ("p50", "p95")}
    return Opinion(document["metadata"]["guidellm_version"], command, figures)
