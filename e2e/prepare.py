"""Builds what the end-to-end tests need, ahead of them: executables, node image, images.

python -m e2e.prepare [real_model]
"""

from __future__ import annotations

import sys

from e2e.harness import docker
from e2e.harness.images import build_all, runtime
from e2e.harness.node_image import node_image
from e2e.harness.shell import Missing, StepFailed, say

_GIB = 5.0
"""Images, and a node that has imported them."""
_GIB_WITH_TORCH = 20.0


def main(arguments: list[str]) -> int:
    """Everything that may take minutes and is kept; what is there already costs seconds."""
    real = "real_model" in arguments
    try:
        docker.require_engine()
        docker.require_disk(_GIB_WITH_TORCH if real else _GIB)
        say(f"node image {node_image()}")
        say(f"images {build_all()}")
        if real:
            say(f"image {runtime()}")
    except (Missing, StepFailed) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
