"""The engine process: `python -m ferry_runtime.engine.worker`."""
