"""Every k6 script, for a few seconds, against the real HTTP stack and cache before a fake engine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from bench.load.figures import figures
from bench.load.k6 import SCRIPTS, Answer, K6Failed, K6Missing, find_k6, run_script
from tests.integration.runtime.http.support import Served, threaded

from ferry_api.runtime_config import CacheConfig, HotConfig
from ferry_runtime.api.auth.keys import KeyTable
from ferry_runtime.api.auth.policy import KeyPolicy

NAMES = sorted(path.stem for path in SCRIPTS.glob("*.js") if path.stem != "client")
BRIEF = {"ramp": "1s", "hold": "1s", "users": 3, "tokens": 4, "model": "ferry-test"}


@pytest.fixture(scope="module", autouse=True)
def k6() -> None:
    try:
        find_k6()
    except K6Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with threaded(cached=True, name="ferry-test") as server:
        yield server


def play(served: Served, name: str) -> list[Answer]:
    return run_script(name, served.url, **BRIEF)


@pytest.mark.parametrize("name", NAMES)
def test_k6_understands_the_script(name: str) -> None:
    subprocess.run([find_k6(), "inspect", SCRIPTS / f"{name}.js"], check=True, capture_output=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_request_of_the_script_is_answered(served: Served, name: str) -> None:
    found = figures(play(served, name))

    assert found.outcomes == {"finished": found.requests}
    assert found.requests >= 3


def test_all_cached_is_answered_by_the_cache_alone(served: Served) -> None:
    assert {answer.cache for answer in play(served, "all_cached")} == {"exact"}


def test_nothing_cached_means_nothing(served: Served) -> None:
    # Twice the same questions: the script empties the cache first.
    for _ in range(2):
        assert {answer.cache for answer in play(served, "no_cache")} == {"miss"}


def test_repeated_questions_hit_and_new_ones_miss(served: Served) -> None:
    answers = run_script("repeat_30", served.url, **BRIEF | {"hold": "3s", "users": 8})

    assert {(answer.kind, answer.cache) for answer in answers} == {("repeated", "exact"), ("new", "miss")}


def test_refused_requests_are_told_as_such(served: Served) -> None:
    answers = run_script("matrix", served.url, **BRIEF | {"tokens": 10**6})

    assert {answer.outcome for answer in answers} == {"failed"}  # 400: it asks for too many tokens


def test_a_server_that_does_not_cache_ends_the_run() -> None:
    brief = HotConfig(cache=CacheConfig(ttl_seconds=0.001))
    with threaded(name="ferry-test", cached=True, hot=brief) as uncached, pytest.raises(K6Failed) as failure:
        play(uncached, "all_cached")
    assert "does not answer repeated" in str(failure.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_cache_that_cannot_be_emptied_ends_the_run(name: str) -> None:
    """What was cached before would be measured as if it had been generated."""
    no_admin = KeyPolicy(KeyTable, anonymous=True)
    with (
        threaded(name="ferry-test", cached=True, auth=no_admin) as closed,
        pytest.raises(K6Failed) as failure,
    ):
        play(closed, name)
    assert "cannot be emptied (401): LOAD_KEY" in str(failure.value)
