"""The scenarios that a load run plays, in the words that its report uses."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scenario:
    """``name``: a script in scripts/; ``what``: for a reader who has not seen it; ``ramp`` and ``hold``: how
    long users come, and how long they stay, so that a whole session takes about eight minutes."""

    name: str
    title: str
    what: str
    ramp: str
    hold: str


SCENARIOS = (
    Scenario(
        "all_cached", "All cached",
        "Up to 50 users ask twenty questions again and again whose answers the cache already has. Each user "
        "waits for the answer, pauses for a second on average, and asks the next question.",
        "10s", "15s",
    ),
    Scenario(
        "repeat_30", "30 % repeated",
        "The same up to 50 users, but only 30 in a hundred questions are among the twenty that the cache "
        "has; the other 70 are new, and their answers (48 tokens at most) must be generated.",
        "15s", "20s",
    ),
    Scenario(
        "no_cache", "Nothing cached",
        "Up to 50 users, and no question comes twice, nor one that resembles another: every answer must be "
        "generated. More users ask than can be served at once, so most of the time is spent in the queue.",
        "15s", "20s",
    ),
    Scenario(
        "mixed_priority", "Mixed priorities",
        "24 users, all questions new. A quarter of the requests is urgent (priority 0), a quarter ordinary "
        "(2), half may wait (8). Urgent ones should wait less, and the others must still come through.",
        "10s", "20s",
    ),
    Scenario(
        "ramp", "From 1 to 50 users",
        "Users of the chat API join one by one, half of the questions repeated: from how many "
        "users on do answers take longer?",
        "45s", "1s",
    ),
)  # fmt: skip

SOAK = "soak"


def wanted_scenarios() -> tuple[Scenario, ...]:
    """All, or those that BENCH_SCENARIOS names; LOAD_SOAK (a duration such as 10m) adds the soak.

    Raises ValueError for a name that is none.
    """
    names = [name for name in os.environ.get("BENCH_SCENARIOS", "").split(",") if name]
    known = {scenario.name: scenario for scenario in SCENARIOS}
    if unknown := set(names) - known.keys():
        raise ValueError(f"no scenario is called {', '.join(sorted(unknown))}: there are {', '.join(known)}")
    chosen = tuple(known[name] for name in names) or SCENARIOS
    if duration := os.environ.get("LOAD_SOAK"):
        chosen += (_soak(duration),)
    return chosen


def _soak(duration: str) -> Scenario:
    what = (
        f"12 users for {duration}, half of the questions repeated: nothing may break or slow down with time."
    )
    return Scenario(SOAK, "Soak", what, "5s", duration)
