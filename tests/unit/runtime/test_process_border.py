"""The HTTP process never loads torch: probed by importing all that it consists of."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
import sys
import ferry_runtime.cli.run, ferry_runtime.cli.serve, ferry_runtime.cli.drain, ferry_runtime.cli.validate
heavy = {"torch", "transformers", "sentence_transformers", "huggingface_hub"} & set(sys.modules)
print(*sorted(heavy))
"""


def test_serving_imports_nothing_of_torch() -> None:
    found = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)

    assert found.stdout.split() == []
