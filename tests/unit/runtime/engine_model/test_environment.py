from __future__ import annotations

import pytest

from ferry_runtime.engine.environment import engine_environment


def test_an_engine_process_gets_what_its_libraries_read_while_they_are_loaded() -> None:
    assert engine_environment({}) == {
        "GOMP_SPINCOUNT": "10000",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ({"GOMP_SPINCOUNT": "7"}, {"GLIBC_TUNABLES"}),
        ({"OMP_WAIT_POLICY": "active"}, {"GLIBC_TUNABLES"}),
        ({"GLIBC_TUNABLES": "glibc.malloc.check=3"}, {"GOMP_SPINCOUNT"}),
    ],
)
def test_what_the_environment_says_already_stays(given: dict[str, str], added: set[str]) -> None:
    assert set(engine_environment(given)) == added
