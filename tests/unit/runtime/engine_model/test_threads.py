from __future__ import annotations

from ferry_runtime.engine.model.threads import let_threads_sleep


def test_threads_spin_briefly_unless_the_environment_says_otherwise() -> None:
    empty: dict[str, str] = {}
    let_threads_sleep(empty)
    assert empty == {"GOMP_SPINCOUNT": "1000"}
    for given in ({"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "active"}):
        environment = dict(given)
        let_threads_sleep(environment)
        assert environment == given
