"""What the run prints at its end: scenario, requests sent, failed, seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from e2e.harness.traffic import Record


@dataclass
class Row:
    """One scenario."""

    sent: int = 0
    failed: int = 0
    seconds: float = 0.0
    passed: bool = True
    notes: list[str] = field(default_factory=list)


@dataclass
class Table:
    """Rows in the order in which scenarios ran."""

    rows: dict[str, Row] = field(default_factory=dict)

    def row(self, scenario: str) -> Row:
        return self.rows.setdefault(scenario, Row())

    def add(self, scenario: str, record: Record) -> None:
        row = self.row(scenario)
        row.sent += record.sent
        row.failed += len(record.failures)

    def note(self, scenario: str, what: str, seconds: float) -> None:
        self.row(scenario).notes.append(f"{what} {seconds:.1f} s")

    def lines(self) -> list[str]:
        width = max((len(name) for name in self.rows), default=8)
        head = f"{'scenario':<{width}}  {'sent':>6}  {'failed':>6}  {'seconds':>7}  result"
        found = [head, "-" * len(head)]
        for name, row in self.rows.items():
            result = "passed" if row.passed else "FAILED"
            notes = f"  ({'; '.join(row.notes)})" if row.notes else ""
            found.append(
                f"{name:<{width}}  {row.sent:>6}  {row.failed:>6}  {row.seconds:>7.1f}  {result}{notes}"
            )
        return found
