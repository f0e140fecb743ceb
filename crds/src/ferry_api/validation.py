"""Everything that is wrong with an InferenceService, found without an API server.

Types and bounds are pydantic's to judge; the rules beyond them (`ferry_api.schema.Rule`) are
checked wherever the value they speak of has the right shape, so that one typing mistake does not
hide what else is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from ferry_api import messages, resource
from ferry_api.problems import Problem
from ferry_api.resource import InferenceService
from ferry_api.schema import SpecModel
from ferry_api.shape import Kind, Member, Shape, members

Path = tuple[str | int, ...]

_ROOT = Shape(Kind.OBJECT, model=InferenceService)
# Below these, null and unknown fields belong to Kubernetes' own types.
_OPAQUE = frozenset({"affinity", "podTemplate", "labelSelector", "fieldRef", "resourceFieldRef"})


def validate(document: Mapping[str, Any] | InferenceService) -> list[Problem]:
    """All problems of one object; none means that it can be used."""
    if isinstance(document, InferenceService):
        document = document.model_dump(mode="json", by_alias=True, exclude_none=True)
    header = _header_problems(document)
    if header:
        return header
    # The API server drops the status of what is applied, so it cannot be wrong.
    document = {key: value for key, value in without_nulls(document).items() if key != "status"}
    structural = list(_structural(document))
    broken = frozenset(found.at for found in structural)
    problems = [found.problem for found in structural]
    problems += list(_Rules(broken).walk(_ROOT, document, (), ""))
    return list(dict.fromkeys(problems))


def validate_update(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Problem]:
    """What may not become of a stored object, both of them valid by themselves."""
    return list(_forbidden_changes(_ROOT, parse(old), parse(new), ()))


def parse(document: Mapping[str, Any]) -> InferenceService:
    """The typed object of a document that `validate` finds nothing wrong with. Raises pydantic's
    ValidationError."""
    return InferenceService.model_validate(without_nulls(document), by_alias=True, by_name=False)


def parse_stored(document: Mapping[str, Any]) -> InferenceService:
    """The typed object of what an API server stored. Its CRD may be newer than this reader: fields that
    are unknown here are left out. Raises pydantic's ValidationError for values that are."""
    return parse(_known(_ROOT, document))


def _known(shape: Shape, value: Any) -> Any:
    if shape.kind is Kind.OBJECT and shape.model is not None and isinstance(value, Mapping):
        shapes = {member.name: member.shape for member in _members(shape)}
        open_ended = shape.model.model_config.get("extra") == "allow"
        return {
            key: _known(shapes[key], item) if key in shapes else item
            for key, item in value.items()
            if open_ended or key in shapes
        }
    if shape.item is not None and isinstance(value, Mapping):
        return {key: _known(shape.item, item) for key, item in value.items()}
    if shape.item is not None and isinstance(value, list):
        return [_known(shape.item, item) for item in value]
    return value


def without_nulls(value: Any) -> Any:
    """The API server takes `field: null` for a field left out; so do we."""
    if isinstance(value, Mapping):
        return {
            key: item if key in _OPAQUE else without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def dotted(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


def _header_problems(document: Mapping[str, Any]) -> list[Problem]:
    problems = []
    for key, wanted in (("apiVersion", resource.API_VERSION), ("kind", resource.KIND)):
        found = document.get(key)
        if found != wanted:
            told = f"not {found!r}" if found is not None else "which is missing"
            problems.append(Problem(key, f"must be {wanted}, {told}"))
    return problems


@dataclass(frozen=True)
class _Found:
    at: Path
    problem: Problem


def _structural(document: Any) -> Iterator[_Found]:
    try:
        InferenceService.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            yield _found(details)


def _found(details: ErrorDetails) -> _Found:
    path = details["loc"]
    if details["type"] == "extra_forbidden":
        parent = _shape_at(path[:-1])
        known = [member.name for member in _members(parent)] if parent is not None else []
        return _Found(path, Problem(dotted(path), messages.unknown_field(str(path[-1]), known)))
    if details["type"] == "missing":
        return _Found(path, Problem(dotted(path), messages.missing_field(_member_at(path))))
    if path and path[-1] == "[key]":
        path = path[:-1]
        return _Found(
            path, Problem(dotted(path[:-1]), f"the key {path[-1]!r} must be a string: put it in quotes")
        )
    return _Found(path, Problem(dotted(path), messages.wrong_value(details, _shape_at(path))))


def _members(shape: Shape, path: str = "") -> tuple[Member, ...]:
    return members(shape.model, path) if shape.model is not None else ()


def _member_at(path: Path) -> Member | None:
    parent = _shape_at(path[:-1])
    if parent is None:
        return None
    return next((member for member in _members(parent) if member.name == path[-1]), None)


def _shape_at(path: Path) -> Shape | None:
    shape: Shape | None = _ROOT
    for part in path:
        if shape is None:
            return None
        if shape.kind is Kind.OBJECT:
            shape = next((member.shape for member in _members(shape) if member.name == part), None)
        else:
            shape = shape.item
    return shape


@cache
def _adapter(model: type[SpecModel], attribute: str) -> TypeAdapter[Any]:
    info = model.model_fields[attribute]
    return TypeAdapter(info.rebuild_annotation())


@dataclass(frozen=True)
class _Rules:
    """Walks a document beside its shape and applies the rules; ``broken`` parts are passed by."""

    broken: frozenset[Path]

    def walk(self, shape: Shape, raw: Any, path: Path, below_spec: str) -> Iterator[Problem]:
        """``below_spec`` is the dotted path of the schema, by which limits go."""
        if shape.kind is Kind.OBJECT and shape.model is not None and isinstance(raw, Mapping):
            yield from self._object(shape, shape.model, raw, path, below_spec)
        elif shape.kind in (Kind.ARRAY, Kind.MAP) and shape.item is not None and not shape.opaque:
            yield from self._items(shape, shape.item, raw, path, below_spec)

    def _object(
        self, shape: Shape, model: type[SpecModel], raw: Mapping[str, Any], path: Path, below_spec: str
    ) -> Iterator[Problem]:
        for member in members(model, below_spec):
            if member.name not in raw:
                continue
            at = (*path, member.name)
            value = raw[member.name]
            below = "" if at == ("spec",) else f"{below_spec}.{member.name}".lstrip(".")
            if member.shape.kind is not Kind.OBJECT and member.shape.rules and self._whole(at):
                typed = _adapter(model, member.attribute).validate_python(value, by_alias=True, by_name=False)
                yield from _broken_rules(member.shape, typed, at)
            yield from self.walk(member.shape, value, at, below)
        if shape.rules and self._whole(path):
            yield from _broken_rules(shape, model.model_validate(raw, by_alias=True, by_name=False), path)

    def _items(self, shape: Shape, item: Shape, raw: Any, path: Path, below_spec: str) -> Iterator[Problem]:
        entries: Sequence[tuple[str | int, Any]]
        if shape.kind is Kind.MAP and isinstance(raw, Mapping):
            entries = list(raw.items())
        elif shape.kind is Kind.ARRAY and isinstance(raw, list):
            entries = list(enumerate(raw))
            if shape.list_key is not None:
                yield from _duplicates(shape.list_key, raw, path)
        else:
            return
        for key, value in entries:
            at = (*path, key)
            if item.kind is not Kind.OBJECT and item.rules and self._whole(at):
                yield from _broken_rules(item, value, at)
            yield from self.walk(item, value, at, below_spec)

    def _whole(self, path: Path) -> bool:
        return not any(broken[: len(path)] == path for broken in self.broken)


def _broken_rules(shape: Shape, typed: Any, path: Path) -> Iterator[Problem]:
    for rule in shape.rules:
        if not rule.holds(typed):
            field = f".{rule.field}" if rule.field is not None else ""
            yield Problem((dotted(path) + field).lstrip("."), rule.sentence(typed))


def _forbidden_changes(shape: Shape, old: Any, new: Any, path: Path) -> Iterator[Problem]:
    """Like the API server, only where both have the value; the items of lists have no past."""
    if old is None or new is None:
        return
    for change in shape.changes:
        if not change.holds(new, old):
            at = (*path, change.field) if change.field is not None else path
            yield Problem(dotted(at), change.message)
    for member in _members(shape):
        before, after = getattr(old, member.attribute), getattr(new, member.attribute)
        yield from _forbidden_changes(member.shape, before, after, (*path, member.name))


def _duplicates(key: str, raw: list[Any], path: Path) -> Iterator[Problem]:
    seen = set()
    for index, entry in enumerate(raw):
        name = entry.get(key) if isinstance(entry, Mapping) else None
        if isinstance(name, str) and name in seen:
            yield Problem(dotted((*path, index)), f"there is an entry with {key} {name} already: remove one")
        seen.add(name if isinstance(name, str) else None)
