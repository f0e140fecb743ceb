"""The dashboard's page as Vite built it: a handful of files, read once and served from memory."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

BUNDLE_FOLDER = Path(__file__).parent / "bundle"
PAGE = "index.html"


@dataclass(frozen=True, slots=True)
class BundleFile:
    body: bytes
    zipped: bytes
    media_type: str
    etag: str

    @classmethod
    def read(cls, path: Path) -> BundleFile:
        body = path.read_bytes()
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        return cls(body, gzip.compress(body, 9, mtime=0), kind, etag)


class Bundle:
    """``files`` by their path below the folder; empty where the dashboard was not built."""

    def __init__(self, folder: Path = BUNDLE_FOLDER) -> None:
        self._folder = folder

    @cached_property
    def files(self) -> Mapping[str, BundleFile]:
        paths = [path for path in sorted(self._folder.rglob("*")) if path.is_file()]
        return {path.relative_to(self._folder).as_posix(): BundleFile.read(path) for path in paths}
