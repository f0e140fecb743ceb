"""Key tables read from folders of mounted files, and read again while serving."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

from ferry_runtime.api.auth.keys import KeyTable, parse_key_table

logger = logging.getLogger(__name__)

_REREAD_SECONDS = 1.0
_LARGEST_ENTRY = 16 * 1024  # bytes; a larger file is no key entry


class KeyFiles:
    """Entries of one or more folders, such as the user's keys and the operator's admin key.

    A changed file counts within a second, without a restart. A folder that cannot be read holds no
    keys, so it closes rather than opens.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._table = KeyTable()
        self._fingerprint: object = None
        self._looked = float("-inf")

    def table(self) -> KeyTable:
        now = time.monotonic()
        if now - self._looked >= _REREAD_SECONDS:
            self._looked = now
            self._refresh()
        return self._table

    def _refresh(self) -> None:
        listing = [_list(folder) for folder in self._folders]
        if listing == self._fingerprint:
            return
        self._fingerprint = listing
        tables = [parse_key_table({path.name: _read(path) for path in files}) for files in listing]
        self._table = KeyTable(
            tuple(entry for table in tables for entry in table.keys),
            tuple(problem for table in tables for problem in table.problems),
        )
        for problem in self._table.problems:
            logger.warning("%s", problem)


def _list(folder: Path) -> dict[Path, tuple[int, int]]:
    """Files with what changes when they are rewritten: modification time and size.

    Kubernetes keeps a Secret's versions under names that start with two dots.
    """
    found = {}
    try:
        for path in sorted(folder.iterdir()):
            if not path.name.startswith(".") and path.is_file():
                stat = path.stat()
                found[path] = (stat.st_mtime_ns, stat.st_size)
    except OSError:
        return {}
    return found


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_ENTRY + 1)
    except OSError:
        return b""
    return content if len(content) <= _LARGEST_ENTRY else b""
