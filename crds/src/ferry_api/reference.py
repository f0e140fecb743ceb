"""The reference of the InferenceService for readers: docs/reference/inferenceservice.md.

Made from the CRD, so that it says what the API server does; what `kubectl explain` shows is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ferry_api import resource
from ferry_api.limits import NOT_BUILT

Schema = dict[str, Any]

FILE_NAME: Final = "inferenceservice.md"

_INTRODUCTION: Final = """\
# InferenceService

<!-- Made from the CRD by `make generate`; changes belong in crds/src/ferry_api. -->

`{api_version}`, namespaced, short name `{short}`. `kubectl explain {short}.spec` shows the same.
The smallest manifest names a model; everything else has a default. Examples are in
[`examples/`](../../examples).

A manifest is checked by the API server when it is applied, and by `ferry validate` without one: the same
rules, the same sentences.

- **Durations** are written as `50ms`, `30s`, `1h30m` ([GEP-2257](https://gateway-api.sigs.k8s.io/geps/gep-2257/)).
- **Quantities** are Kubernetes' own: `4Gi`, `500M`, `1`.
- **References** name objects in the resource's own namespace.
- `null` means the same as leaving the field out.

The resource's name becomes its Service's name. {name_rule}
"""


def render(crd: Schema) -> str:
    """The whole page."""
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    name_rule = schema["x-kubernetes-validations"][0]["message"]
    parts = [
        _INTRODUCTION.format(
            api_version=resource.API_VERSION, short=resource.SHORT_NAME, name_rule=f"It {name_rule}."
        ),
        _limits(),
        *_sections("spec", schema["properties"]["spec"]),
        *_sections("status", schema["properties"]["status"]),
    ]
    return "\n".join(parts)


def _limits() -> str:
    lines = ["## Not in this release", "", "Described here, and refused when it is asked for:", ""]
    lines += [f"- `spec.{limit.path}`: {limit.rule.message}." for limit in NOT_BUILT]
    return "\n".join([*lines, ""])


def _sections(path: str, schema: Schema) -> Iterator[str]:
    """A section for the object, then one for each object below it that has fields."""
    properties = schema.get("properties", {})
    lines = [f"## {path}", ""]
    if schema.get("description"):
        lines += [schema["description"], ""]
    lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
    required = schema.get("required", [])
    lines += [_row(name, child, name in required) for name, child in properties.items()]
    rules = [
        *_rules("", schema),
        *(rule for name, child in properties.items() for rule in _rules(name, child)),
    ]
    if rules:
        lines += ["", "Rules:", "", *rules]
    yield "\n".join([*lines, ""])
    for name, child in properties.items():
        inner = child.get("items", child)
        if inner.get("properties"):
            yield from _sections(f"{path}.{name}" + ("[]" if "items" in child else ""), inner)


def _row(name: str, schema: Schema, required: bool) -> str:
    default = schema.get("default")
    shown = "**required**" if required else "" if default in (None, {}) else f"`{_plain(default)}`"
    return f"| `{name}` | {_type(schema)} | {shown} | {_cell(schema.get('description', ''))} |"


def _type(schema: Schema) -> str:
    if "enum" in schema:
        return _cell(" | ".join(f"`{value}`" for value in schema["enum"]))
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if schema.get("type") == "string" and "(h|m|s|ms)" in schema.get("pattern", ""):
        return "duration"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}, at most {schema['maxItems']}"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    if schema["type"] == "object" and "properties" not in schema:
        return "object, passed on"
    return {"object": "object", "string": "string", "boolean": "true or false"}.get(
        schema["type"], _number(schema)
    )


def _number(schema: Schema) -> str:
    name = schema["type"]
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{name}, {low} to {high}"
    return f"{name}, {low} or more" if low is not None else name


def _rules(name: str, schema: Schema) -> Iterator[str]:
    # An object below this one has a section of its own, which lists its rules.
    if name and schema.get("properties"):
        return
    for rule in schema.get("x-kubernetes-validations", []):
        about = name or rule.get("fieldPath", "").lstrip(".")
        yield f"- `{about}`: {rule['message']}." if about else f"- {rule['message']}."
    yield from _rules(name, schema.get("items", {})) if "items" in schema else ()


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
