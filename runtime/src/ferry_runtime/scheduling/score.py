"""Who goes first: one explicit, pure scoring function.

    score = ageing * level(priority) + min(cost * pressure, ageing * room(priority)) - waited

The lowest score goes first. All terms are seconds:

* ``level`` maps every integer priority into (-1, 1), strictly growing: 0 -> 0, 1 -> 1/2, 2 -> 3/4, …
* ``cost * pressure`` is the waiting that serving this request first would inflict on everyone else
  in the queue: its cost in tokens, over the tokens per second that the server gets done, times
  the number who wait. That is the system's load in the score: with nobody waiting the order is
  first come, first served, and it turns towards shortest-first as the queue grows.
* ``room`` is the distance to the next level, so cost never outweighs priority at equal age.
* ``waited`` is ageing. It grows alike for everyone, hence the order of two requests never
  changes with time and a heap keyed by ``arrival + handicap`` holds the queue in order.

Because the handicap is bounded, so is overtaking: a request is never passed by one that arrived
more than `overtaking_bound` seconds after it, whatever the load.
"""

from __future__ import annotations

from dataclasses import dataclass

# The share of the queue's timeout that one unit of the scale is worth. With 2/3 a request of
# priority 0, however costly, precedes everything that arrives queue.timeout after it:
# 2/3 * (room(0) + level(0) - lowest level) = 2/3 * (1/2 + 0 + 1) = 1.
AGEING_SHARE = 2 / 3

# Priorities beyond are told apart by the integer itself, as a tie-break; 2 ** -40 s is no time.
_DEEPEST = 40

# Cost stays strictly inside its level.
_INSIDE = 0.99


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the server is, as far as the order of the queue is concerned."""

    waiting: int  # requests in the queue
    tokens_per_second: float  # prompt and generated tokens got done per second of work

    @property
    def pressure(self) -> float:
        """Seconds of other requests' waiting, in sum, per token of the one that goes first."""
        return self.waiting / self.tokens_per_second


def level(priority: int) -> float:
    """-1 < level < 1: 0 at 0, half of what is left with each step."""
    distance = 1.0 - 2.0 ** -min(abs(priority), _DEEPEST)
    return distance if priority >= 0 else -distance


def room(priority: int) -> float:
    """How far cost may push a request back inside its level."""
    return _INSIDE * (level(priority + 1) - level(priority))


def handicap(priority: int, cost: float, pressure: float, ageing: float) -> float:
    """Seconds by which a request stands behind its arrival; ``cost`` in tokens."""
    return ageing * level(priority) + min(cost * pressure, ageing * room(priority))


def score(priority: int, cost: float, waited: float, pressure: float, ageing: float) -> float:
    """Lowest goes first. ``waited`` and ``ageing`` in seconds."""
    return handicap(priority, cost, pressure, ageing) - waited


def ageing_seconds(queue_timeout: float) -> float:
    """The scale of the score, from how long a request may wait at all."""
    return AGEING_SHARE * queue_timeout


def overtaking_bound(priority: int, ageing: float, other: int | None = None) -> float:
    """No request that arrives later than this many seconds after one of ``priority`` passes it.

    ``other`` is the passing request's priority; None: any integer at all.
    """
    lowest = -1.0 if other is None else level(other)
    return max(0.0, ageing * (level(priority) + room(priority) - lowest))
