"""The resource's types, decoded once into plain facts.

The CRD, the reference and the checks of a manifest all read these instead of picking pydantic's
annotations apart each in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ferry_api.limits import limits_at
from ferry_api.schema import Atomic, Changes, ListMap, Opaque, Rule, Rules, SpecModel, TransitionRule
from ferry_api.values import Duration, Quantity


class Kind(Enum):
    """Named as in JSON schema, with Ferry's own two strings told apart."""

    OBJECT = "object"
    MAP = "map"
    ARRAY = "array"
    STRING = "string"
    DURATION = "duration"
    QUANTITY = "quantity"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ANY = "any"


_SCALARS: Final[dict[Any, Kind]] = {
    str: Kind.STRING,
    Duration: Kind.DURATION,
    Quantity: Kind.QUANTITY,
    int: Kind.INTEGER,
    float: Kind.NUMBER,
    bool: Kind.BOOLEAN,
    Any: Kind.ANY,
}


@dataclass(frozen=True)
class Shape:
    """One value's type and everything that is demanded of it."""

    kind: Kind
    model: type[SpecModel] | None = None  # OBJECT
    item: Shape | None = None  # ARRAY, MAP
    enum: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None  # characters, items or entries
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    rules: tuple[Rule, ...] = ()
    changes: tuple[TransitionRule, ...] = ()
    list_key: str | None = None
    opaque: bool = False
    atomic: bool = False


@dataclass(frozen=True)
class Member:
    """A field of an object."""

    name: str  # as in a manifest
    attribute: str  # as in Python
    shape: Shape
    description: str
    required: bool
    default: Any = field(default=None)  # None: no default; nested objects as objects


@cache
def members(model: type[SpecModel], path: str = "") -> tuple[Member, ...]:
    """The fields of an object. ``path`` is where it stands below spec; limits go by it."""
    return tuple(_member(attribute, info, path) for attribute, info in model.model_fields.items())


def _member(attribute: str, info: FieldInfo, path: str) -> Member:
    name = info.alias or attribute
    shape = _shape(info.annotation, list(info.metadata))
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    limits = limits_at(f"{path}.{name}".lstrip("."))
    return Member(
        name=name,
        attribute=attribute,
        shape=replace(
            shape, rules=limits + shape.rules, format=str(extra["format"]) if "format" in extra else None
        ),
        description=info.description or "",
        required=info.is_required(),
        default=None if info.default is PydanticUndefined or info.default in (None, (), {}) else info.default,
    )


def _shape(annotation: Any, metadata: list[Any]) -> Shape:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *own = get_args(annotation)
        return _shape(inner, [*own, *metadata])
    if origin in (Union, UnionType):
        (inner,) = [arm for arm in get_args(annotation) if arm is not NoneType]
        return _shape(inner, metadata)
    return _constrained(_bare(annotation, origin), metadata)


def _bare(annotation: Any, origin: Any) -> Shape:
    if origin is Literal:
        return Shape(Kind.STRING, enum=tuple(get_args(annotation)))
    if origin is dict:
        return Shape(Kind.MAP, item=_shape(get_args(annotation)[1], []))
    if origin is tuple:
        return Shape(Kind.ARRAY, item=_shape(get_args(annotation)[0], []))
    if annotation in _SCALARS:
        return Shape(_SCALARS[annotation])
    if issubclass(annotation, Enum):
        return Shape(Kind.STRING, enum=tuple(member.value for member in annotation))
    return Shape(Kind.OBJECT, model=annotation, rules=annotation.RULES, changes=annotation.TRANSITIONS)


def _constrained(shape: Shape, metadata: list[Any]) -> Shape:
    for item in _flat(metadata):
        match item:
            case Ge(ge=int() | float() as bound):
                shape = replace(shape, minimum=bound)
            case Le(le=int() | float() as bound):
                shape = replace(shape, maximum=bound)
            case MinLen(min_length=length):
                shape = replace(shape, min_length=length)
            case MaxLen(max_length=length):
                shape = replace(shape, max_length=length)
            case Rules(rules=rules):
                shape = replace(shape, rules=shape.rules + rules)
            case Changes(rules=changes):
                shape = replace(shape, changes=shape.changes + changes)
            case ListMap(key=key):
                shape = replace(shape, list_key=key)
            case Opaque():
                shape = replace(shape, opaque=True)
            case Atomic():
                shape = replace(shape, atomic=True)
            case _ if getattr(item, "pattern", None) is not None:
                shape = replace(shape, pattern=item.pattern)
    return shape


def _flat(metadata: list[Any]) -> Iterator[Any]:
    for item in metadata:
        if isinstance(item, FieldInfo):
            yield from item.metadata
        else:
            yield item
