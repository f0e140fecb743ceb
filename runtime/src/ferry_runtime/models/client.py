"""Preparing a model from the HTTP process: the work happens in a child, progress comes back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from pathlib import Path

import msgspec

from ferry_runtime.errors import ModelPreparationError
from ferry_runtime.models.messages import Line, PrepareRequest
from ferry_runtime.models.prepared import PreparedModel
from ferry_runtime.models.progress import Report, silent

logger = logging.getLogger(__name__)

_LOGGED_BYTES = 8_192
_LONGEST_LINE = 1 << 20


async def prepare_model(
    uri: str, cache: Path, *, token: str | None = None, weights: bool = True, report: Report = silent
) -> PreparedModel:
    """Prepare ``uri`` below the folder ``cache``. Cancelling ends the child at once.

    ``weights`` False: only configuration, tokenizer and templates, for a model that another server
    computes. Raises ModelPreparationError with a sentence for the user.
    """
    environment = {**os.environ, "HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # a file in the working directory must not stand in for a module
        "-m",
        "ferry_runtime.models.worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        limit=_LONGEST_LINE,
        start_new_session=True,  # Ctrl-C is for this process, which ends the child itself
    )
    request = PrepareRequest(uri=uri, cache=str(cache), token=token, weights=weights)
    try:
        return await _converse(process, request, report)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())


async def _converse(
    process: asyncio.subprocess.Process, request: PrepareRequest, report: Report
) -> PreparedModel:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise ModelPreparationError("The preparation process has no pipes.")
    errors = asyncio.create_task(_tail(process.stderr))
    try:
        # Left open: its end is how the child notices that this process died.
        process.stdin.write(msgspec.json.encode(request) + b"\n")
        with contextlib.suppress(ConnectionError):
            await process.stdin.drain()
        async for raw in process.stdout:
            line = msgspec.json.decode(raw, type=Line)
            if line.progress is not None:
                report(line.progress)
            elif line.model is not None:
                return line.model
            elif line.failure is not None:
                raise ModelPreparationError(line.failure)
        code = await process.wait()
        logger.error("preparation ended with code %s: %s", code, await errors)
        raise ModelPreparationError(_ended(request.uri, code))
    finally:
        errors.cancel()


async def _tail(stream: asyncio.StreamReader) -> str:
    kept = b""
    while chunk := await stream.read(_LOGGED_BYTES):
        kept = (kept + chunk)[-_LOGGED_BYTES:]
    return kept.decode(errors="replace")


def _ended(uri: str, code: int) -> str:
    if code == -9:
        return (
            f"{uri}: preparation was killed, most likely because memory ran out; "
            "converting needs about three times the size of the weights."
        )
    return f"{uri}: preparation ended unexpectedly (exit code {code}); the reason is in the server's log."
