"""What an API server does to a custom resource before it is stored, without an API server.

Prune unknown fields, drop nulls, apply defaults, check the structural schema, then the CEL rules:
the order of apiextensions-apiserver. Real servers get the same table of manifests in the operator's
integration tests; this one makes the rules testable in milliseconds.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

import celpy
import jsonschema
from celpy import celtypes

from ferry_api.values import Quantity

Schema = dict[str, Any]

_KEYWORDS = (
    *("type", "required", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)
# With one of these the server does not look at the rules (hasBlockingErr in apiextensions-apiserver).
_BLOCKING = frozenset({"type", "required", "enum", "maxLength", "maxItems", "maxProperties"})
INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True)
class Refusal:
    """One reason; ``path`` as the API server prints it."""

    path: str
    message: str


@dataclass
class Outcome:
    """``stored`` is the object with its defaults, whether or not it is refused."""

    stored: dict[str, Any]
    refusals: list[Refusal] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        return not self.refusals


class Admission:
    """Admits objects of one CRD; ``strict`` refuses unknown fields, as kubectl asks for."""

    def __init__(self, crd: Schema, *, strict: bool = True) -> None:
        self.schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        self._strict = strict
        # celpy raises the recursion limit when it is first used; hypothesis watches it within a test.
        celpy.Environment()
        self._validator = jsonschema.Draft202012Validator(_for_jsonschema(self.schema))

    def create(self, manifest: Mapping[str, Any]) -> Outcome:
        return self._admit(manifest, None)

    def update(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Outcome:
        stored = self.create(old)
        assert stored.accepted, stored.refusals
        return self._admit(new, stored.stored)

    def _admit(self, manifest: Mapping[str, Any], old: dict[str, Any] | None) -> Outcome:
        stored = copy.deepcopy(dict(manifest))
        unknown = [Refusal(path, f'unknown field "{path}"') for path in prune(self.schema, stored, root=True)]
        drop_nulls(self.schema, stored)
        apply_defaults(self.schema, stored)
        outcome = Outcome(stored, unknown if self._strict else [])
        errors = list(self._validator.iter_errors(stored))
        outcome.refusals += [Refusal(_place(error), error.message) for error in errors]
        outcome.refusals += duplicates(self.schema, stored, "")
        if not any(error.validator in _BLOCKING for error in errors):
            outcome.refusals += broken_rules(self.schema, stored, old, "")
        return outcome


def _place(error: jsonschema.ValidationError) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    if error.validator == "required":
        (missing,) = [name for name in error.validator_value if repr(name) in error.message]
        path += f".{missing}"
    return path.lstrip(".")


def prune(schema: Schema, value: Any, path: str = "", *, root: bool = False) -> list[str]:
    """Remove what the schema does not know; returns the paths of what was removed."""
    removed: list[str] = []
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for key in list(value):
            below = f"{path}.{key}".lstrip(".")
            if root and key == "metadata":
                continue
            if key in properties:
                removed += prune(properties[key], value[key], below)
            elif isinstance(schema.get("additionalProperties"), dict):
                removed += prune(schema["additionalProperties"], value[key], below)
            elif not schema.get(PRESERVE):
                del value[key]
                removed.append(below)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            removed += prune(schema.get("items", {}), item, f"{path}[{index}]")
    return removed


def drop_nulls(schema: Schema, value: Any) -> None:
    """null in a field that is not nullable means: left out."""
    if isinstance(value, dict):
        for key, child in children(schema, value):
            if value[key] is None:
                del value[key]
            else:
                drop_nulls(child, value[key])
    elif isinstance(value, list):
        for item in value:
            drop_nulls(schema.get("items", {}), item)


def apply_defaults(schema: Schema, value: Any) -> None:
    if isinstance(value, dict):
        for key, child in schema.get("properties", {}).items():
            if key not in value and "default" in child:
                value[key] = copy.deepcopy(child["default"])
        for key, child in children(schema, value):
            apply_defaults(child, value[key])
    elif isinstance(value, list):
        for item in value:
            apply_defaults(schema.get("items", {}), item)


def children(schema: Schema, value: dict[str, Any]) -> list[tuple[str, Schema]]:
    properties = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    found = [(key, properties.get(key, extra)) for key in value]
    return [(key, child) for key, child in found if isinstance(child, dict)]


def duplicates(schema: Schema, value: Any, path: str) -> Iterator[Refusal]:
    if isinstance(value, dict):
        for key, child in children(schema, value):
            yield from duplicates(child, value[key], f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        (key,) = schema.get("x-kubernetes-list-map-keys", [None])
        seen = []
        for index, item in enumerate(value):
            if key is not None and isinstance(item, dict):
                if item.get(key) in seen:
                    yield Refusal(f"{path}[{index}]", "Duplicate value")
                seen.append(item.get(key))
            yield from duplicates(schema.get("items", {}), item, f"{path}[{index}]")


def broken_rules(schema: Schema, value: Any, old: Any, path: str) -> Iterator[Refusal]:
    if isinstance(value, dict):
        for key, child in children(schema, value):
            before = old.get(key) if isinstance(old, dict) else None
            yield from broken_rules(child, value[key], before, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from broken_rules(schema.get("items", {}), item, None, f"{path}[{index}]")
    for rule in schema.get("x-kubernetes-validations", []):
        if "oldSelf" in rule["rule"] and old is None:
            continue
        sees = (schema, value, old)
        if not _evaluate(rule["rule"], *sees):
            message = rule["message"]
            if "messageExpression" in rule:
                message = str(_evaluate(rule["messageExpression"], *sees))
            yield Refusal((path + rule.get("fieldPath", "")).lstrip("."), message)


def to_cel(schema: Schema, value: Any) -> Any:
    """A value with the CEL type that its schema gives it: 1 in a number field is a double."""
    if isinstance(value, dict):
        pairs = dict(children(schema, value))
        return celtypes.MapType(
            {celtypes.StringType(key): to_cel(pairs.get(key, {}), item) for key, item in value.items()}
        )
    if isinstance(value, list):
        return celtypes.ListType([to_cel(schema.get("items", {}), item) for item in value])
    if schema.get("type") == "number":
        return celtypes.DoubleType(value)
    return celpy.json_to_cel(value)


def _for_jsonschema(schema: Schema) -> Schema:
    """A structural schema in JSON schema's words."""
    written = {key: schema[key] for key in _KEYWORDS if key in schema}
    if schema.get(INT_OR_STRING):
        written["type"] = ["integer", "string"]
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            written[key] = _for_jsonschema(schema[key])
    if "properties" in schema:
        written["properties"] = {key: _for_jsonschema(child) for key, child in schema["properties"].items()}
    return written


class _QuantityValue(celtypes.StringType):
    """Kubernetes' CEL library has a type of its own for quantities."""


def _quantity(text: Any) -> Any:
    return (
        _QuantityValue(text) if Quantity.is_valid(str(text)) else celpy.CELEvalError(f"no quantity: {text}")
    )


def _amount(text: Any) -> Decimal:
    return Quantity(str(text)).value


def _compare(left: Any, right: Any) -> Any:
    return celtypes.IntType((_amount(left) > _amount(right)) - (_amount(left) < _amount(right)))


def _find(text: Any, pattern: Any) -> Any:
    found = re.search(str(pattern), str(text))
    return celtypes.StringType(found.group() if found else "")


# The functions of Kubernetes' and cel-go's extension libraries that the rules use.
_FUNCTIONS = {
    "isQuantity": lambda text: celtypes.BoolType(Quantity.is_valid(str(text))),
    "quantity": _quantity,
    "compareTo": _compare,
    "asApproximateFloat": lambda text: celtypes.DoubleType(float(_amount(text))),
    "lowerAscii": lambda text: celtypes.StringType(str(text).lower()),
    "replace": lambda text, old, new: celtypes.StringType(str(text).replace(str(old), str(new))),
    "substring": lambda text, start, end: celtypes.StringType(str(text)[int(start) : int(end)]),
    "find": _find,
}


@cache
def _program(source: str) -> Any:
    environment = celpy.Environment()
    return environment.program(environment.compile(source), functions=_FUNCTIONS)


# The interpreter takes milliseconds, and most of a manifest is the same defaults again and again.
_known: dict[tuple[str, str, str], Any] = {}


def _evaluate(source: str, schema: Schema, value: Any, old: Any) -> Any:
    key = (source, json.dumps(value, sort_keys=True), json.dumps(old, sort_keys=True))
    if key not in _known:
        activation = {"self": to_cel(schema, value), "oldSelf": to_cel(schema, old)}
        _known[key] = _program(source).evaluate(activation)
    return _known[key]
