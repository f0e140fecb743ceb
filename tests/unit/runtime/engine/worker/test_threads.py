"""Threads follow what the container may use, not what the machine has."""

from pathlib import Path

import pytest

from ferry_runtime.engine.worker.threads import compute_threads


@pytest.fixture(autouse=True)
def eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("limit", "threads"), [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("5000 100000", 1)]
)
def test_a_quota_of_cgroup_v2(tmp_path: Path, limit: str, threads: int) -> None:
    write(tmp_path / "cpu.max", limit + "\n")
    assert compute_threads(tmp_path) == threads


@pytest.mark.parametrize(("quota", "threads"), [("-1", 8), ("300000", 3)])
def test_a_quota_of_cgroup_v1(tmp_path: Path, quota: str, threads: int) -> None:
    write(tmp_path / "cpu" / "cpu.cfs_quota_us", quota + "\n")
    write(tmp_path / "cpu" / "cpu.cfs_period_us", "100000\n")
    assert compute_threads(tmp_path) == threads


def test_without_a_control_group_all_processors(tmp_path: Path) -> None:
    assert compute_threads(tmp_path) == 8


def test_the_environment_decides_where_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert compute_threads(tmp_path) == 3
