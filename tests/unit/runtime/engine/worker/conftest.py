"""Real tokenizers and an engine without a model, for all tests of the worker."""

from typing import Any

import pytest

from .bench import Bench, MakeBench
from .kinds import KINDS, Kind


@pytest.fixture(scope="session", params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return Kind(request.param)


@pytest.fixture(scope="session")
def byte_kind() -> Kind:
    return Kind("byte-level")


@pytest.fixture(scope="session")
def piece_kind() -> Kind:
    return Kind("pieces-strip")


@pytest.fixture
def bench(byte_kind: Kind) -> MakeBench:
    def make(**runner: Any) -> Bench:
        return Bench(byte_kind, **runner)

    return make
