"""The folder that keeps prepared models: one at a time is made, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import filelock
import msgspec
import platformdirs

from ferry_runtime.errors import ModelPreparationError
from ferry_runtime.models.prepared import PreparedModel, model_digest, read_record
from ferry_runtime.models.progress import Progress, Report, Stage

_POLL_SECONDS = 0.2


def default_cache_folder() -> Path:
    """FERRY_CACHE_DIR, else the user's cache folder (XDG_CACHE_HOME is honoured)."""
    override = os.environ.get("FERRY_CACHE_DIR")
    return Path(override) if override else Path(platformdirs.user_cache_dir("ferry", appauthor=False))


class CacheFolder:
    """``entry(key)`` is a prepared model's place; `building` makes it atomically."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._models = root / "models"

    def entry(self, key: str) -> Path:
        return self._models / key

    def find(self, key: str) -> PreparedModel | None:
        """The entry, if it is whole: its content still gives the recorded digest."""
        directory = self.entry(key)
        record = read_record(directory)
        if record is None:
            return None
        try:
            sound = model_digest(directory, weights=record.weights_bytes > 0) == record.digest
        except (OSError, ValueError, KeyError):
            return None
        # A cache that was moved or is mounted elsewhere now is as good.
        return msgspec.structs.replace(record, directory=str(directory)) if sound else None

    @contextlib.contextmanager
    def lock(self, key: str, report: Report) -> Iterator[None]:
        """One process at a time; freed by the system when its holder dies.

        Raises ModelPreparationError when the folder cannot be written.
        """
        with _explained(self.root):
            self._models.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(self._models / f"{key}.lock", poll_interval=_POLL_SECONDS)
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                report(Progress(Stage.WAIT))
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def building(self, key: str, needed_bytes: int) -> Iterator[Path]:
        """A staging directory that becomes the entry when the block ends without an exception.

        Call it under `lock`: what a crashed process left behind for this key is removed.
        """
        with _explained(self.root):
            self._remove_leftovers(key)
            self._check_room(needed_bytes)
            staging = self._models / f".{key}.{secrets.token_hex(4)}"
            staging.mkdir()
            try:
                yield staging
                _flush(staging)
                final = self.entry(key)
                if final.exists():
                    final.rename(staging.with_suffix(".old"))
                staging.rename(final)
            finally:
                self._remove_leftovers(key)

    def _remove_leftovers(self, key: str) -> None:
        for leftover in self._models.glob(f".{key}.*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def _check_room(self, needed_bytes: int) -> None:
        free = shutil.disk_usage(self._models).free
        if free < needed_bytes:
            raise ModelPreparationError(
                f"The model needs {needed_bytes / 1e9:.1f} GB in {self.root}, where {free / 1e9:.1f} GB "
                "are free: free some space, or set FERRY_CACHE_DIR to a folder on a larger disk."
            )


@contextlib.contextmanager
def _explained(root: Path) -> Iterator[None]:
    """Turn what the file system says into a sentence; libraries in between only pass on the text."""
    try:
        yield
    except ModelPreparationError:
        raise
    except Exception as error:
        code = error.errno if isinstance(error, OSError) else None
        text = str(error).lower()
        if code in (errno.ENOSPC, errno.EDQUOT) or "no space left" in text or "os { code: 28" in text:
            raise ModelPreparationError(
                f"The disk that holds {root} is full: free some space, "
                "or set FERRY_CACHE_DIR to another folder."
            ) from error
        if code in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise ModelPreparationError(
                f"{root} cannot be written, and prepared models are kept there: "
                "set FERRY_CACHE_DIR to a folder that can."
            ) from error
        raise


def _flush(directory: Path) -> None:
    """To the disk before the rename, so that a power cut cannot leave an entry of empty files."""
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                os.fsync(file.fileno())
