"""Become another program that dies with the process that started it.

``python -m ferry_runtime.store.launch PARENT_PID PROGRAM ARGUMENT…``: the request to be killed
with the parent outlives exec(2), so the program needs to know nothing of it.
"""

from __future__ import annotations

import os
import sys

from ferry_runtime.process.channel import die_with_parent


def main() -> None:
    parent, program, *arguments = sys.argv[1:]
    die_with_parent(int(parent))
    os.execv(program, [program, *arguments])  # noqa: S606 (no shell, and the caller's own arguments)


if __name__ == "__main__":
    main()
