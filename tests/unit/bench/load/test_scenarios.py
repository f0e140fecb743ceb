from __future__ import annotations

import pytest
from bench.load.k6 import SCRIPTS
from bench.load.scenarios import SCENARIOS, SOAK, wanted_scenarios


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_SCENARIOS", raising=False)
    monkeypatch.delenv("LOAD_SOAK", raising=False)


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS] + [SOAK, "matrix"])
def test_every_scenario_has_its_script(name: str) -> None:
    assert (SCRIPTS / f"{name}.js").is_file()


def test_all_scenarios_are_played_unless_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wanted_scenarios() == SCENARIOS

    monkeypatch.setenv("BENCH_SCENARIOS", "no_cache,all_cached")
    assert [scenario.name for scenario in wanted_scenarios()] == ["no_cache", "all_cached"]


def test_the_soak_is_added_where_a_duration_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOAD_SOAK", "10m")

    assert (wanted_scenarios()[-1].name, wanted_scenarios()[-1].hold) == (SOAK, "10m")


def test_an_unknown_scenario_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_SCENARIOS", "all_cashed")

    with pytest.raises(ValueError, match="all_cashed"):
        wanted_scenarios()
