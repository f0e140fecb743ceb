"""What is wrong with a manifest, as its author is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing to mend. ``path`` is as in the manifest ("spec.batching.maxWait", "" for the whole),
    ``message`` says what is wrong and what to write instead, ``line`` counts from 1."""

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        what = (
            self.message
            if not self.path or self.message.startswith(self.path)
            else f"{self.path}: {self.message}"
        )
        return where + what


class ManifestError(ValueError):
    """A manifest that cannot be used. ``problems`` has everything that is wrong, not only the first."""

    def __init__(self, problems: Sequence[Problem], origin: str | None = None) -> None:
        self.problems = tuple(problems)
        self.origin = origin
        lines = [str(problem) for problem in self.problems]
        head = [f"{origin}:"] if origin and len(lines) > 1 else []
        if origin and len(lines) == 1:
            lines = [f"{origin}: {lines[0]}"]
        super().__init__("\n  ".join(head + lines))
