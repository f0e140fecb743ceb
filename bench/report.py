"""A report: printed, and kept as Markdown with its environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bench.environment import Environment


@dataclass
class Report:
    scenario: str
    environment: Environment
    facts: list[tuple[str, str]] = field(default_factory=list)
    sections: list[tuple[str, list[str]]] = field(default_factory=list)

    def fact(self, name: str, value: object) -> None:
        self.facts.append((name, str(value)))
        print(f"{name}: {value}", flush=True)

    def section(self, title: str, lines: list[str]) -> None:
        self.sections.append((title, lines))
        print(f"-- {title}", *lines, sep="\n", flush=True)

    def write(self, results: Path) -> Path:
        lines = [f"# {self.scenario}", "", *(f"- {line}" for line in self.environment.lines()), ""]
        lines += ["| figure | median (lowest to highest round) |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in self.facts]
        for title, body in self.sections:
            lines += ["", f"## {title}", "", "```", *body, "```"]
        results.mkdir(parents=True, exist_ok=True)
        path = results / f"{self.scenario}.md"
        path.write_text("\n".join(lines) + "\n")
        print(f"written: {path}", flush=True)
        return path
