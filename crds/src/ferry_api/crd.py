"""The CustomResourceDefinition, made from the Python types.

`ferry_api.spec` and `ferry_api.status` are the source; the YAML file beside them is generated
(`make generate`) and a test holds it to them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import yaml
from pydantic import BaseModel

from ferry_api import resource
from ferry_api.names import NAME_RULE
from ferry_api.schema import Rule, SpecModel, TransitionRule
from ferry_api.shape import Kind, Member, Shape, members
from ferry_api.spec import InferenceServiceSpec
from ferry_api.status import InferenceServiceStatus
from ferry_api.values import DURATION_PATTERN, QUANTITY_PATTERN

FILE_NAME: Final = f"{resource.PLURAL}.{resource.GROUP}.yaml"

_HEADER = "# Made from crds/src/ferry_api by `make generate`; changes belong there.\n"

Schema = dict[str, Any]

_COLUMNS: Final = (
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 0),
    ("Model", "string", ".spec.model.source", 0),
    ("Replicas", "integer", ".status.replicas", 0),
    ("Cache", "string", '.status.conditions[?(@.type=="CacheReady")].status', 0),
    ("URL", "string", ".status.url", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Available", "string", '.status.conditions[?(@.type=="Available")].status', 1),
    ("Image", "string", ".status.image", 1),
)


def build() -> Schema:
    """The whole definition as it is applied."""
    version = {
        "name": resource.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path, **({"priority": 1} if priority else {})}
            for name, kind, path, priority in _COLUMNS
        ],
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {"openAPIV3Schema": _root()},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.PLURAL}.{resource.GROUP}"},
        "spec": {
            "group": resource.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": resource.KIND,
                "listKind": f"{resource.KIND}List",
                "plural": resource.PLURAL,
                "singular": resource.SINGULAR,
                "shortNames": [resource.SHORT_NAME],
                "categories": ["ferry"],
            },
            "versions": [version],
        },
    }


def render() -> str:
    """The definition as the YAML file in crds/."""
    return _HEADER + yaml.dump(
        build(), Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True, default_flow_style=False
    )


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key, and writes no anchors."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _root() -> Schema:
    return {
        "type": "object",
        "description": resource.InferenceService.__doc__,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Always " + resource.API_VERSION + "."},
            "kind": {"type": "string", "description": "Always " + resource.KIND + "."},
            # The bound is what every object name has; it is repeated for the rules' cost estimate.
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            "spec": {
                "description": _sentence(InferenceServiceSpec.__doc__),
                **_object(InferenceServiceSpec, "", InferenceServiceSpec.RULES, ()),
            },
            "status": {
                "description": _sentence(InferenceServiceStatus.__doc__),
                **_object(InferenceServiceStatus, "status", (), ()),
            },
        },
        "x-kubernetes-validations": [_validation(replace(NAME_RULE, field="metadata.name"))],
    }


def _object(
    model: type[SpecModel], path: str, rules: tuple[Rule, ...], changes: tuple[TransitionRule, ...]
) -> Schema:
    fields = members(model, path)
    schema: Schema = {"type": "object"}
    required = [member.name for member in fields if member.required]
    if required:
        schema["required"] = required
    schema["properties"] = {member.name: _property(member, path) for member in fields}
    if model.model_config.get("extra") == "allow":
        schema["x-kubernetes-preserve-unknown-fields"] = True
    return schema | _validations(rules, changes)


def _property(member: Member, path: str) -> Schema:
    schema: Schema = {"description": member.description}
    if member.default is not None:
        schema["default"] = _default(member)
    return schema | _schema(member.shape, f"{path}.{member.name}".lstrip("."))


def _default(member: Member) -> Any:
    value = member.default
    if isinstance(value, BaseModel):
        if not member.shape.atomic:
            return {}  # its own fields' defaults fill it
        return value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return str(value) if isinstance(value, str) else value


def _schema(shape: Shape, path: str) -> Schema:
    match shape.kind:
        case Kind.OBJECT:
            assert shape.model is not None  # noqa: S101  (what OBJECT means)
            schema = _object(shape.model, path, shape.rules, shape.changes)
            if shape.opaque:
                schema["x-kubernetes-preserve-unknown-fields"] = True
            return schema
        case Kind.MAP if shape.opaque:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case Kind.MAP:
            assert shape.item is not None  # noqa: S101
            schema = {"type": "object", "additionalProperties": _schema(shape.item, path)}
            return schema | _bounds(shape, "Properties") | _validations(shape.rules, shape.changes)
        case Kind.ARRAY:
            assert shape.item is not None  # noqa: S101
            schema = {"type": "array", "items": _schema(shape.item, path)} | _bounds(shape, "Items")
            if shape.list_key is not None:
                schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [shape.list_key]}
            else:
                schema["x-kubernetes-list-type"] = "atomic"
            return schema | _validations(shape.rules, shape.changes)
        case _:
            return _scalar(shape) | _validations(shape.rules, shape.changes)


def _scalar(shape: Shape) -> Schema:
    if shape.kind is Kind.QUANTITY:
        return {"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN}
    if shape.kind is Kind.DURATION:
        return {"type": "string", "maxLength": 28, "pattern": DURATION_PATTERN}
    schema: Schema = {"type": shape.kind.value}
    if shape.enum:
        schema["enum"] = list(shape.enum)
    for key, value in (("format", shape.format), ("pattern", shape.pattern)):
        if value is not None:
            schema[key] = value
    if shape.minimum is not None:
        schema["minimum"] = shape.minimum
    if shape.maximum is not None:
        schema["maximum"] = shape.maximum
    return schema | _bounds(shape, "Length")


def _bounds(shape: Shape, of: str) -> Schema:
    bounds = {f"min{of}": shape.min_length, f"max{of}": shape.max_length}
    return {key: value for key, value in bounds.items() if value is not None}


def _validations(rules: tuple[Rule, ...], changes: tuple[TransitionRule, ...]) -> Schema:
    both: list[Rule | TransitionRule] = [*rules, *changes]
    written = [_validation(rule) for rule in both]
    return {"x-kubernetes-validations": written} if written else {}


def _validation(rule: Rule | TransitionRule) -> Schema:
    schema: Schema = {"rule": rule.cel, "message": rule.message}
    if isinstance(rule, Rule) and rule.message_cel is not None:
        schema["messageExpression"] = rule.message_cel
    if rule.field is not None:
        schema["fieldPath"] = f".{rule.field}"
    return schema


def _sentence(docstring: str | None) -> str:
    return " ".join((docstring or "").split())
