"""A source becomes a prepared directory. Runs in the preparation process."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from ferry_runtime.errors import ModelPreparationError
from ferry_runtime.fingerprint import file_sample
from ferry_runtime.models import checks, hub, package
from ferry_runtime.models.cachefolder import CacheFolder
from ferry_runtime.models.convert import CONVERTER, convert_gguf
from ferry_runtime.models.prepared import (
    LAYOUT,
    PreparedModel,
    model_digest,
    weight_files,
    write_record,
)
from ferry_runtime.models.progress import Progress, Report, Stage
from ferry_runtime.models.source import DirectorySource, HubSource, PackageSource, Source, parse_source
from ferry_runtime.models.tokenizer_files import write_tokenizer

# Q4 weights take 4.5 bits a value and become 32; with the tokenizer's files on top.
_GGUF_GROWTH = 8
_TOKENIZER_BYTES = 100 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """One source on its way to a prepared directory.

    Without ``weights`` only configuration, tokenizer and templates are made ready (a GGUF file is
    converted all the same: its tokenizer is inside).
    """

    uri: str
    cache: CacheFolder
    report: Report
    token: str | None = None
    weights: bool = True

    def run(self) -> PreparedModel:
        """Find, fetch, check and convert. Instant when an earlier run left the same model whole.

        Raises ConfigurationError or ModelPreparationError, each with what to do.
        """
        source = parse_source(self.uri)
        if isinstance(source, PackageSource):
            gguf = package.find_gguf(source.package)
            if gguf is not None:
                return self._converted(gguf)
        directory, revision = self._directory(source)
        checks.check_directory(directory, self.uri, weights=self.weights)
        return self._linked(directory, revision)

    def _directory(self, source: Source) -> tuple[Path, str | None]:
        match source:
            case HubSource():
                # With a cache folder of its own (a volume of the pod), downloads belong there too.
                own = "FERRY_CACHE_DIR" in os.environ and not {"HF_HOME", "HF_HUB_CACHE"} & os.environ.keys()
                folder = self.cache.root / "hub" if own else None
                snapshot = hub.fetch(
                    source, token=self.token, cache=folder, report=self.report, weights=self.weights
                )
                return snapshot.directory, snapshot.commit
            case DirectorySource(path):
                if not path.is_dir():
                    raise ModelPreparationError(f"{self.uri}: there is no directory {path} here.")
                return path, None
            case PackageSource(name):
                return package.find_safetensors(name), None

    def _converted(self, gguf: Path) -> PreparedModel:
        key = f"{gguf.stem.lower()}-{file_sample(gguf)[:12]}-{CONVERTER}.{LAYOUT}.{_transformers()}"
        found = self.cache.find(key)
        if found is None:
            with self.cache.lock(key, self.report):
                found = self.cache.find(key)
                if found is None:
                    needed = gguf.stat().st_size * _GGUF_GROWTH + _TOKENIZER_BYTES
                    with self.cache.building(key, needed) as staging:
                        convert_gguf(gguf, staging, self.report)
                        self.report(Progress(Stage.VERIFY))
                        self._record(staging, None)
                    found = self.cache.find(key)
        return self._present(found, None)

    def _linked(self, origin: Path, revision: str | None) -> PreparedModel:
        """Weights stay where they are; beside links to them lie the tokenizer's settled files."""
        try:
            digest = model_digest(origin, weights=self.weights)
        except (OSError, ValueError, KeyError) as error:
            raise ModelPreparationError(
                f"{self.uri}: a weight file is damaged or cut short. Copy it again."
            ) from error
        key = f"{'linked' if self.weights else 'text'}-{digest[:20]}-{LAYOUT}.{_transformers()}"
        wanted = weight_files(origin) if self.weights else []
        found = self.cache.find(key)
        if found is None or not _links_to(found, wanted):
            with self.cache.lock(key, self.report):
                found = self.cache.find(key)
                if found is None or not _links_to(found, wanted):
                    self._link(key, origin, revision, found)
                    found = self.cache.find(key)
        return self._present(found, revision)

    def _link(self, key: str, origin: Path, revision: str | None, earlier: PreparedModel | None) -> None:
        with self.cache.building(key, _TOKENIZER_BYTES) as staging:
            for name in ("config.json", "generation_config.json", checks.INDEX):
                if (origin / name).is_file():
                    shutil.copyfile(origin / name, staging / name)
            for path in weight_files(origin) if self.weights else []:
                (staging / path.name).symlink_to(path.absolute())
            if earlier is None:
                self.report(Progress(Stage.TOKENIZER))
                write_tokenizer(origin, staging, self.uri)
            else:  # the same weights, which have moved
                _copy_missing(earlier.path, staging)
            self._record(staging, revision)

    def _record(self, directory: Path, revision: str | None) -> None:
        # What a GGUF file was converted to has weights whether or not they are asked for.
        weights = weight_files(directory)
        present = all(path.is_file() for path in weights)
        record = PreparedModel(
            directory=str(directory),
            source=self.uri,
            digest=model_digest(directory, weights=present),
            weights_bytes=sum(path.stat().st_size for path in weights) if present else 0,
            revision=revision,
        )
        write_record(directory, record)

    def _present(self, found: PreparedModel | None, revision: str | None) -> PreparedModel:
        if found is None:
            raise ModelPreparationError(
                f"{self.uri}: the prepared copy does not read back as written: check the disk."
            )
        return msgspec.structs.replace(found, source=self.uri, revision=revision)


def _copy_missing(earlier: Path, staging: Path) -> None:
    present = {path.name for path in staging.iterdir()}
    shutil.copytree(earlier, staging, ignore=lambda _, names: present & set(names), dirs_exist_ok=True)


def _links_to(found: PreparedModel, weights: list[Path]) -> bool:
    return all((found.path / path.name).resolve() == path.resolve() for path in weights)


def _transformers() -> str:
    """Part of every key: another release may settle a tokenizer or convert weights differently."""
    try:
        return version("transformers")
    except PackageNotFoundError as error:
        raise ModelPreparationError(
            "transformers is not installed: install ferry-serving[runtime]."
        ) from error
