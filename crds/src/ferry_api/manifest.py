"""Reading an InferenceService from YAML as kubectl would, with better words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ferry_api import resource
from ferry_api.problems import ManifestError, Problem
from ferry_api.resource import InferenceService
from ferry_api.validation import parse, validate
from ferry_api.yaml_source import Document, read_documents

# Kubernetes' own bound on a request is 3 MiB.
MAX_BYTES: Final = 3 * 1024 * 1024


def load_manifest(source: Path | str) -> InferenceService:
    """The one InferenceService of a manifest.

    ``source`` is a file's path, or the text itself (a str with a line break, or in braces).
    Documents of other kinds, such as a Secret beside it, are left alone. Raises ManifestError
    with everything that is wrong.
    """
    services = load_manifests(source)
    if len(services) > 1:
        names = ", ".join(service.name for service in services)
        raise ManifestError(
            [
                Problem(
                    "",
                    f"holds {len(services)} InferenceServices ({names}): put the one to use in its own file",
                )
            ],
            _origin(source),
        )
    return services[0]


def load_manifests(source: Path | str) -> list[InferenceService]:
    """Every InferenceService of a manifest; at least one. Raises ManifestError."""
    origin = _origin(source)
    documents = read_documents(_text(source), origin)
    ours = [document for document in documents if _is_ours(document)]
    if not ours:
        raise ManifestError([_nothing_found(documents)], origin)
    problems = [problem for document in ours for problem in _problems(document)]
    if problems:
        raise ManifestError(problems, origin)
    return [
        parse({key: value for key, value in document.content.items() if key != "status"}) for document in ours
    ]


def check_manifest(source: Path | str) -> list[Problem]:
    """Everything that is wrong with a manifest, with line numbers; none means that it loads."""
    try:
        load_manifests(source)
    except ManifestError as error:
        return list(error.problems)
    return []


def _is_ours(document: Document) -> bool:
    kind, version = document.content.get("kind"), document.content.get("apiVersion")
    group = version.partition("/")[0] if isinstance(version, str) else ""
    # Other projects have an InferenceService too; theirs is named as wrong, not passed by.
    return kind == resource.KIND or group == resource.GROUP


def _problems(document: Document) -> list[Problem]:
    found = [
        Problem(problem.path, problem.message, document.line_of(problem.path))
        for problem in validate(document.content)
    ]
    return sorted(found, key=lambda problem: problem.line or 0)


def _nothing_found(documents: list[Document]) -> Problem:
    if not documents:
        return Problem("", "is empty: write an InferenceService, such as examples/smollm2.yaml")
    kinds: list[Any] = [document.content.get("kind") for document in documents]
    if all(kind is None for kind in kinds):
        return Problem(
            "kind",
            f"is missing: begin with apiVersion: {resource.API_VERSION} and kind: {resource.KIND}",
            documents[0].line_of(""),
        )
    found = ", ".join(str(kind) for kind in kinds)
    return Problem("kind", f"must be {resource.KIND}; found only {found}", documents[0].line_of("kind"))


def _text(source: Path | str) -> str:
    if not _is_path(source):
        return str(source)
    origin = _origin(source)
    try:
        raw = Path(source).read_bytes()
    except FileNotFoundError:
        raise ManifestError([Problem("", "there is no such file")], origin) from None
    except OSError as error:
        raise ManifestError([Problem("", f"cannot be read: {error.strerror}")], origin) from None
    if len(raw) > MAX_BYTES:
        raise ManifestError([Problem("", "is larger than 3 MiB, which no manifest is")], origin)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ManifestError([Problem("", "is not UTF-8 text")], origin) from None


def _is_path(source: Path | str) -> bool:
    return isinstance(source, Path) or not ("\n" in source or source.lstrip().startswith("{"))


def _origin(source: Path | str) -> str | None:
    return str(source) if _is_path(source) else None
