from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.monitoring import binaries


def _required(name: str) -> Path:
    found = binaries.find(name)
    if found is None:
        pytest.skip(f"{name} is not there: `make prometheus` fetches it, or set {binaries.VARIABLE}")
    return found


@pytest.fixture(scope="session")
def promtool() -> Path:
    return _required("promtool")


@pytest.fixture(scope="session")
def prometheus() -> Path:
    return _required("prometheus")
