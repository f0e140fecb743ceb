"""Writes the table of values in the chart's README from the comments of values.yaml.

python charts/values_table.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

_CHART = Path(__file__).resolve().parent / "ferry"
_BEGIN, _END = "<!-- values -->", "<!-- end of values -->"
_KEY = re.compile(r"^( *)([A-Za-z0-9_]+):(.*)$")
_INDENT = 2


@dataclass(frozen=True)
class Value:
    """One key of values.yaml. ``default`` is None for a key whose fields follow."""

    path: str
    default: str | None
    comment: str


def values(text: str) -> Iterator[Value]:
    """Every key of a values file, with the comment above it."""
    path: list[str] = []
    comment: list[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        stripped = line.strip()
        found = _KEY.match(line)
        if stripped.startswith("#"):
            comment.append(stripped.lstrip("# "))
        elif found:
            depth = len(found.group(1)) // _INDENT
            path = [*path[:depth], found.group(2)]
            yield Value(".".join(path), _default(found.group(3), lines[number + 1 :]), " ".join(comment))
            comment = []
        else:
            comment = []


def _default(written: str, rest: list[str]) -> str | None:
    if not written.strip() and any(line.startswith(" ") for line in rest[:1]):
        return None
    return json.dumps(yaml.safe_load(written))


def table(text: str) -> str:
    """The keys as a Markdown table."""
    rows = ["| Value | Default | Meaning |", "|---|---|---|"]
    for value in values(text):
        default = "" if value.default is None else f"`{value.default}`"
        rows.append(f"| `{value.path}` | {default} | {value.comment.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def readme(before: str, text: str) -> str:
    """The README with its table made anew."""
    head, _, rest = before.partition(_BEGIN)
    tail = rest.partition(_END)[2]
    return f"{head}{_BEGIN}\n{table(text)}\n{_END}{tail}"


def main(arguments: list[str]) -> int:
    """Write the README, or say by the exit code whether it has to be written."""
    target = _CHART / "README.md"
    before = target.read_text()
    after = readme(before, (_CHART / "values.yaml").read_text())
    if "--check" in arguments:
        return int(before != after)
    target.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
