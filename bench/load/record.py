"""What a load run found out: kept as JSON, shown as a page."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from bench.environment import Environment
from bench.load.figures import Figures, by_kind, figures
from bench.load.k6 import Answer
from bench.load.matrix import Cell
from bench.load.outside import Opinion
from bench.load.scenarios import Scenario


@dataclass(frozen=True, slots=True)
class Played:
    scenario: Scenario
    answers: list[Answer]

    @property
    def figures(self) -> Figures:
        return figures(self.answers)


@dataclass(slots=True)
class Session:
    """``models``: name, parameters and kind of weights of each of the matrix. ``url``: of a server that ran
    already, elsewhere perhaps. ``failed``: why it ended before everything was measured."""

    environment: Environment
    k6: str
    seed: int
    taken: str
    minutes: float = 0.0
    played: list[Played] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    models: list[tuple[str, str, str]] = field(default_factory=list)
    opinion: Opinion | None = None
    url: str = ""
    failed: str = ""

    def as_json(self) -> dict[str, object]:
        return {
            "environment": asdict(self.environment),
            "k6": self.k6,
            "seed": self.seed,
            "taken": self.taken,
            "url": self.url,
            "failed": self.failed,
            "minutes": round(self.minutes, 2),
            "scenarios": [
                {
                    "name": one.scenario.name,
                    **one.figures.as_json(),
                    "kinds": {kind: own.as_json() for kind, own in by_kind(one.answers).items()},
                }
                for one in self.played
            ],
            "models": self.models,
            "matrix": [
                {"model": c.model, "pattern": c.pattern, "users": c.users, **c.figures.as_json()}
                for c in self.cells
            ],
            "outside": None if self.opinion is None else asdict(self.opinion),
        }
