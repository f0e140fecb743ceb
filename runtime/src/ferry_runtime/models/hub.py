"""Snapshots of Hugging Face Hub repositories: only what serving needs, at one resolved commit."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from ferry_runtime.errors import ModelPreparationError
from ferry_runtime.models.checks import INDEX, files_to_fetch, index_shards
from ferry_runtime.models.progress import Progress, Report, Stage
from ferry_runtime.models.source import HubSource


@dataclass(frozen=True, slots=True)
class Snapshot:
    directory: Path
    commit: str


def fetch(
    source: HubSource, *, token: str | None, cache: Path | None, report: Report, weights: bool = True
) -> Snapshot:
    """Download what is missing, or use the local copy when the hub cannot be asked.

    ``cache`` None is the hub library's own (HF_HOME). Raises ModelPreparationError.
    """
    repository, revision = source.repository, source.revision
    uri = f"hf://{repository}" + (f"@{revision}" if revision else "")
    common: dict[str, Any] = {"token": token, "cache_dir": cache}
    report(Progress(Stage.DOWNLOAD))
    try:
        info = HfApi(token=token).model_info(repository, revision=revision, files_metadata=True)
        sizes = {entry.rfilename: entry.size or 0 for entry in info.siblings or []}
        names = files_to_fetch(sizes, uri, weights=weights)
        if INDEX in names:
            index = hf_hub_download(repository, INDEX, revision=info.sha, **common)
            names += sorted(index_shards(Path(index)))
        bar = _bar(report, total=sum(sizes.get(name, 0) for name in names))
        # By its name rather than its commit, so that the library notes what the name stood for and
        # finds it again without network. Should the name move meanwhile, the directory's own check
        # still sees whether it is complete.
        folder = snapshot_download(
            repository, revision=revision, allow_patterns=names, tqdm_class=bar, **common
        )
        return Snapshot(Path(folder), Path(folder).name)
    except GatedRepoError as error:
        raise ModelPreparationError(
            f"{uri} is gated: accept its terms on the hub, and give a token of that account "
            "(model.secretRef on a cluster, HF_TOKEN here)."
        ) from error
    except RevisionNotFoundError as error:
        raise ModelPreparationError(f"{uri}: the repository has no such revision.") from error
    except RepositoryNotFoundError as error:
        raise ModelPreparationError(
            f"{uri}: there is no such repository, or it is private: check the name, or give a token that "
            "may read it (model.secretRef on a cluster, HF_TOKEN here)."
        ) from error
    except (OfflineModeIsEnabled, httpx.TransportError, LocalEntryNotFoundError) as error:
        return _cached(source, uri, cache, error)
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        if status in (401, 403):
            raise ModelPreparationError(f"{uri}: the hub refused the token that was given.") from error
        return _cached(source, uri, cache, error)


def _cached(source: HubSource, uri: str, cache: Path | None, cause: Exception) -> Snapshot:
    """The copy of an earlier download; whether it is complete is checked with every directory."""
    try:
        folder = snapshot_download(
            source.repository,
            revision=source.revision,
            cache_dir=cache,
            local_files_only=True,
            allow_patterns=["config.json"],
        )
    except LocalEntryNotFoundError:
        offline = constants.HF_HUB_OFFLINE
        reason = "HF_HUB_OFFLINE is set" if offline else f"{constants.ENDPOINT} cannot be reached"
        raise ModelPreparationError(
            f"{uri}: {reason}, and there is no copy of it on this machine. "
            "Connect once to fetch it, or name local weights with file:///path."
        ) from cause
    return Snapshot(Path(folder), Path(folder).name)


def _bar(report: Report, total: int) -> type[tqdm[Any]]:
    """A progress bar that draws nothing and reports bytes.

    The library keeps one bar for what arrives and one for what is written; the larger counts.
    """
    lock = threading.Lock()
    most = 0

    class Reported(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.counts_bytes = kwargs.get("unit") == "B"
            self.seen = 0
            super().__init__(*args, **{**kwargs, "disable": True})

        def update(self, n: float | None = 1) -> bool | None:
            nonlocal most
            with lock:
                self.seen += int(n or 0)
                if self.counts_bytes and self.seen > most:
                    most = self.seen
                    report(Progress(Stage.DOWNLOAD, min(most, total) if total else most, total or None, "B"))
            return None

    return Reported
