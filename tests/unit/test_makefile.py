"""What takes minutes on a new machine is made before the tests, for each of those has a limit of its own."""

from __future__ import annotations

import subprocess

import pytest
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("target", "ahead"),
    [
        ("test", "-m tests.integration.monitoring.binaries"),
        ("test-operator", "-m tests.integration.operator.binaries"),
        ("soak", "-m tests.integration.operator.binaries"),
        ("test-compose", "-m tests.integration.compose.binaries"),
        ("e2e-smoke", "-m e2e.prepare"),
        ("e2e", "-m e2e.prepare real_model"),
    ],
)
def test_what_is_built_once_is_built_ahead_of_the_tests(target: str, ahead: str) -> None:
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert 0 < done.stdout.find(ahead) < done.stdout.find("-m pytest")
