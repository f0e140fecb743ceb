"""A source becomes a prepared directory. Runs in the preparation process."""

from __future__ import annotations

import os
import shutil
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


def prepare(uri: str, cache: CacheFolder, report: Report, *, token: str | None = None) -> PreparedModel:
    """Find, fetch, check and convert. Instant when an earlier run left the same model whole.

    Raises ConfigurationError or ModelPreparationError, each with what to do.
    """
    source = parse_source(uri)
    if isinstance(source, PackageSource):
        gguf = package.find_gguf(source.package)
        if gguf is not None:
            return _converted(uri, gguf, cache, report)
    directory, revision = _directory(source, uri, cache, report, token)
    checks.check_directory(directory, uri)
    return _linked(uri, directory, revision, cache, report)


def _directory(
    source: Source, uri: str, cache: CacheFolder, report: Report, token: str | None
) -> tuple[Path, str | None]:
    match source:
        case HubSource():
            # With a cache folder of its own (a volume of the pod), downloads belong there too.
            own = "FERRY_CACHE_DIR" in os.environ and not {"HF_HOME", "HF_HUB_CACHE"} & os.environ.keys()
            folder = cache.root / "hub" if own else None
            snapshot = hub.fetch(source, token=token, cache=folder, report=report)
            return snapshot.directory, snapshot.commit
        case DirectorySource(path):
            if not path.is_dir():
                raise ModelPreparationError(f"{uri}: there is no directory {path} here.")
            return path, None
        case PackageSource(name):
            return package.find_safetensors(name), None


def _converted(uri: str, gguf: Path, cache: CacheFolder, report: Report) -> PreparedModel:
    key = f"{gguf.stem.lower()}-{file_sample(gguf)[:12]}-{CONVERTER}.{LAYOUT}.{_transformers()}"
    found = cache.find(key)
    if found is not None:
        return msgspec.structs.replace(found, source=uri)
    with cache.lock(key, report):
        found = cache.find(key)
        if found is None:
            needed = gguf.stat().st_size * _GGUF_GROWTH + _TOKENIZER_BYTES
            with cache.building(key, needed) as staging:
                convert_gguf(gguf, staging, report)
                report(Progress(Stage.VERIFY))
                _record(staging, uri, None)
            found = cache.find(key)
    return _present(found, uri)


def _linked(
    uri: str, origin: Path, revision: str | None, cache: CacheFolder, report: Report
) -> PreparedModel:
    """Weights stay where they are; beside links to them lie the tokenizer's settled files."""
    try:
        key = f"linked-{model_digest(origin)[:20]}-{LAYOUT}.{_transformers()}"
    except (OSError, ValueError, KeyError) as error:
        raise ModelPreparationError(
            f"{uri}: a weight file is damaged or cut short. Copy it again."
        ) from error
    found = cache.find(key)
    if found is None or not _links_to(found, origin):
        with cache.lock(key, report):
            found = cache.find(key)
            if found is None or not _links_to(found, origin):
                with cache.building(key, _TOKENIZER_BYTES) as staging:
                    _link(origin, staging)
                    if found is None:
                        report(Progress(Stage.TOKENIZER))
                        write_tokenizer(origin, staging, uri)
                    else:  # the same weights, which have moved
                        _copy_missing(found.path, staging)
                    _record(staging, uri, revision)
                found = cache.find(key)
    return msgspec.structs.replace(_present(found, uri), revision=revision)


def _link(origin: Path, staging: Path) -> None:
    for name in ("config.json", "generation_config.json", checks.INDEX):
        if (origin / name).is_file():
            shutil.copyfile(origin / name, staging / name)
    for path in weight_files(origin):
        (staging / path.name).symlink_to(path.absolute())


def _copy_missing(earlier: Path, staging: Path) -> None:
    present = {path.name for path in staging.iterdir()}
    shutil.copytree(earlier, staging, ignore=lambda _, names: present & set(names), dirs_exist_ok=True)


def _links_to(found: PreparedModel, origin: Path) -> bool:
    return all(path.resolve() == (origin / path.name).resolve() for path in weight_files(found.path))


def _record(directory: Path, uri: str, revision: str | None) -> None:
    record = PreparedModel(
        directory=str(directory),
        source=uri,
        digest=model_digest(directory),
        weights_bytes=sum(path.stat().st_size for path in weight_files(directory)),
        revision=revision,
    )
    write_record(directory, record)


def _present(found: PreparedModel | None, uri: str) -> PreparedModel:
    if found is None:
        raise ModelPreparationError(
            f"{uri}: the prepared copy does not read back as written: check the disk."
        )
    return msgspec.structs.replace(found, source=uri)


def _transformers() -> str:
    """Part of every key: another release may settle a tokenizer or convert weights differently."""
    try:
        return version("transformers")
    except PackageNotFoundError as error:
        raise ModelPreparationError(
            "transformers is not installed: install ferry-serving[runtime]."
        ) from error
