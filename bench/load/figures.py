"""What a run of a scenario comes to. A request without a good answer waited for ever."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from bench.load.k6 import Answer
from bench.stats import quantile

HITS = frozenset({"exact", "semantic", "coalesced", "hit"})


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds; rates are per second from the first request to the last answer."""

    requests: int
    outcomes: dict[str, int]
    cache: dict[str, int]
    p50: float
    p95: float
    p99: float
    requests_per_second: float
    tokens_per_second: float  # generated ones: those from the cache do not count

    @property
    def hits(self) -> int:
        return sum(count for outcome, count in self.cache.items() if outcome in HITS)

    def as_json(self) -> dict[str, object]:
        """Infinity, which JSON does not know, as null."""
        return {key: None if value == math.inf else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        return cls(**{key: math.inf if value is None else value for key, value in fields.items()})


def latency(answer: Answer) -> float:
    return answer.seconds if answer.outcome == "finished" else math.inf


def figures(answers: Sequence[Answer]) -> Figures:
    """Raises ValueError when nothing was sent."""
    if not answers:
        raise ValueError("no request was sent")
    finished = [answer for answer in answers if answer.outcome == "finished"]
    waited = [latency(answer) for answer in answers]
    seconds = max((answer.ended for answer in answers), default=0.0) or math.inf
    made = sum(answer.tokens for answer in finished if answer.cache not in HITS)
    return Figures(
        requests=len(answers),
        outcomes=_counted(answer.outcome for answer in answers),
        cache=_counted(answer.cache for answer in finished),
        p50=quantile(waited, 0.5),
        p95=quantile(waited, 0.95),
        p99=quantile(waited, 0.99),
        requests_per_second=len(finished) / seconds,
        tokens_per_second=made / seconds,
    )


def by_kind(answers: Sequence[Answer]) -> dict[str, Figures]:
    kinds = sorted({answer.kind for answer in answers})
    return {kind: figures([answer for answer in answers if answer.kind == kind]) for kind in kinds}


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
