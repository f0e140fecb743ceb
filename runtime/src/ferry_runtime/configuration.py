"""The configuration that is served now: read from files, and read again while serving.

Only the hot part changes without a new process. What does not parse is never applied: the last
good configuration stays, and /health and the log say so.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from ferry_api import pod_layout
from ferry_api.config_documents import from_documents, load_config
from ferry_api.manifest import load_manifest
from ferry_api.problems import ManifestError
from ferry_api.resource import KIND
from ferry_api.runtime_config import RuntimeConfig
from ferry_api.translation import to_runtime_config
from ferry_runtime.errors import ConfigurationError
from ferry_runtime.settings import apply_environment, config_from_environment

logger = logging.getLogger(__name__)

_WATCH_SECONDS = 1.0


class ConfigurationSource:
    """A pod's mounted folder (cold/ and hot/), one file, or the environment alone.

    A file holds a RuntimeConfig or an InferenceService manifest.
    """

    def __init__(self, path: Path | None, environment: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._environment = os.environ if environment is None else environment

    def load(self) -> RuntimeConfig:
        """Raises ConfigurationError with everything that is wrong."""
        if self.path is None:
            return config_from_environment(self._environment)
        try:
            return apply_environment(self._from_files(self.path), self._environment)
        except ManifestError as error:
            raise ConfigurationError(str(error)) from error

    def fingerprint(self) -> bytes:
        """Changes with the files' content, however they are replaced (a ConfigMap's files are
        symbolic links that are swapped); empty while they cannot be read."""
        digest = hashlib.sha256()
        try:
            for path in self._files():
                digest.update(path.read_bytes() + b"\0")
        except OSError:
            return b""
        return digest.digest()

    def _files(self) -> list[Path]:
        if self.path is None:
            return []
        if not self.path.is_dir():
            return [self.path]
        return [self.path / part / pod_layout.CONFIG_FILE for part in ("cold", "hot")]

    def _from_files(self, path: Path) -> RuntimeConfig:
        if path.is_dir():
            cold, hot = (_text(file) for file in self._files())
            return from_documents(cold, hot)
        text = _text(path)
        if _kind(text) == KIND:
            return to_runtime_config(load_manifest(path))
        return load_config(text)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(f"There is no configuration file {path}.") from None
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"The configuration file {path} cannot be read as text.") from None


def _kind(text: str) -> object:
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        return None
    kinds = [document.get("kind") for document in documents if isinstance(document, dict)]
    return KIND if KIND in kinds else next(iter(kinds), None)


class LiveConfiguration:
    """``config`` is what is applied; ``problem`` is why newer content is not, as a sentence."""

    def __init__(self, source: ConfigurationSource) -> None:
        """Raises ConfigurationError when there is nothing valid to begin with."""
        self._source = source
        self._seen = source.fingerprint()
        self.config = source.load()
        self.problem: str | None = None

    async def watch(self, apply: Callable[[RuntimeConfig], None]) -> None:
        """Call ``apply`` after each change of the hot part, within seconds, until cancelled."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if self.reread():
                apply(self.config)

    def reread(self) -> bool:
        """True when something new was applied."""
        seen = self._source.fingerprint()
        # Unreadable for a moment is how a swap can look from here.
        if not seen or seen == self._seen:
            return False
        self._seen = seen
        try:
            fresh = self._source.load()
        except ConfigurationError as error:
            self.problem = f"New configuration is not valid and was not applied: {error}"
            logger.error("%s", self.problem)
            return False
        self.problem = None
        if fresh.cold != self.config.cold:
            self.problem = "The model, engine or batch shape was changed: that takes effect with a restart."
            logger.warning("%s", self.problem)
        applied = self.config.model_copy(update={"hot": fresh.hot, "generation": fresh.generation})
        if applied == self.config:
            return False
        self.config = applied
        logger.info("new configuration applied", extra={"generation": applied.generation})
        return True
