"""`ferry`, but first come first served: the yardstick of the `mixed` scenario.

The product has no such setting, so the policy is replaced here, where the parts are joined.
"""

from __future__ import annotations

import sys
from typing import Any

from ferry_runtime import service
from ferry_runtime.cli import main
from ferry_runtime.pipeline import ServingPipeline
from ferry_runtime.scheduling.queue import first_come_first_served


class PlainPipeline(ServingPipeline):
    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts, policy=first_come_first_served)


if __name__ == "__main__":
    service.ServingPipeline = PlainPipeline  # type: ignore[attr-defined]
    sys.exit(main())
