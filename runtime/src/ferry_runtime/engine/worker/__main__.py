"""`python -m ferry_runtime.engine.worker`, started by `engine.backend.ProcessBackend`."""

import sys

from ferry_runtime.engine.wire import ToWorker
from ferry_runtime.process import connect


def main() -> int:
    # Connected before torch is imported, which takes seconds: from here on it dies with its parent.
    channel = connect(ToWorker)
    from ferry_runtime.engine.model.load import load_runner  # noqa: PLC0415
    from ferry_runtime.engine.worker.main import run  # noqa: PLC0415

    return run(channel, load_runner)


sys.exit(main())
