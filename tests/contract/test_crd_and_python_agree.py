"""The committed CRD and the Python types describe the same resource.

The CRD is generated, so most of this holds as long as the file is current; the walk here reads
pydantic's own JSON schema instead of the generator's view, so that a mistake of the generator shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ferry_api.generate import generated
from ferry_api.resource import InferenceService
from ferry_api.validation import parse

ROOT = Path(__file__).parents[2]

BOUNDS = {
    "minimum": "minimum",
    "maximum": "maximum",
    "minLength": "minLength",
    "maxLength": "maxLength",
    "minItems": "minItems",
    "maxItems": "maxItems",
    "maxProperties": "maxProperties",
    "enum": "enum",
}


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Without references, and without the null arm that Python's `| None` adds."""
    while True:
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rsplit("/", 1)[-1]] | {
                k: v for k, v in schema.items() if k != "$ref"
            }
        elif "anyOf" in schema:
            (arm,) = [arm for arm in schema["anyOf"] if arm != {"type": "null"}]
            schema = arm | {k: v for k, v in schema.items() if k != "anyOf"}
        else:
            return schema


def _python_fields(
    schema: dict[str, Any], definitions: dict[str, Any], path: str
) -> Iterator[tuple[str, Any, bool]]:
    schema = _resolved(schema, definitions)
    for name, child in schema.get("properties", {}).items():
        below = f"{path}.{name}"
        resolved = _resolved(child, definitions)
        yield below, resolved, name in schema.get("required", [])
        values = resolved.get("additionalProperties")
        item = resolved.get("items", values if isinstance(values, dict) else resolved)
        yield from _python_fields(item, definitions, below)


def _crd_fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, Any, bool]]:
    for name, child in schema.get("properties", {}).items():
        below = f"{path}.{name}"
        yield below, child, name in schema.get("required", [])
        yield from _crd_fields(child.get("items", child.get("additionalProperties", child)), below)


@pytest.fixture(scope="module")
def python_fields() -> dict[str, tuple[Any, bool]]:
    schema = InferenceService.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    return {
        path: (child, required)
        for part in ("spec", "status")
        for path, child, required in _python_fields(schema["properties"][part], definitions, part)
    }


@pytest.fixture(scope="module")
def crd_fields(definition) -> dict[str, tuple[Any, bool]]:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {
        path: (child, required)
        for part in ("spec", "status")
        for path, child, required in _crd_fields(schema["properties"][part], part)
    }


@pytest.mark.parametrize("path", list(generated(ROOT)), ids=lambda path: path.name)
def test_generated_files_are_current(path):
    assert path.read_text(encoding="utf-8") == generated(ROOT)[path], "run `make generate`"


def test_both_have_the_same_fields(python_fields, crd_fields):
    assert sorted(python_fields) == sorted(crd_fields)


def test_both_require_the_same_fields(python_fields, crd_fields):
    required = {path for path, (_, needed) in python_fields.items() if needed}
    assert required == {path for path, (_, needed) in crd_fields.items() if needed}


def test_both_have_the_same_bounds(python_fields, crd_fields):
    for path, (schema, _) in python_fields.items():
        theirs = crd_fields[path][0]
        if "x-kubernetes-int-or-string" in theirs or theirs.get("maxLength") == 28:
            continue  # quantities and durations: their bounds are rules
        for ours, name in BOUNDS.items():
            assert schema.get(ours) == theirs.get(name), f"{path}: {ours}"


def test_every_field_of_the_crd_is_described(crd_fields):
    undescribed = [path for path, (schema, _) in crd_fields.items() if not schema.get("description")]
    assert undescribed == []


def test_python_fills_in_the_defaults_of_the_api_server(admission, manifest):
    for values in ({}, {"spec.scaling": {"maxReplicas": 2}}, {"spec.cache.redis.managed": {}}):
        minimal = manifest(values)
        stored = admission.create(minimal).stored
        assert parse(minimal) == parse(stored)
        written = parse(minimal).model_dump(mode="json", by_alias=True, exclude_none=True)
        assert _without_empty(stored["spec"]) == _without_empty(written["spec"])


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, [])}
    return value


def test_every_object_with_defaults_is_given_by_default(crd_fields):
    """Nested defaults do not appear otherwise. Where presence has a meaning there is no default."""
    meaningful = {
        "scaling",
        "managed",
        "storage",
        "upstream",
        "external",
        "ingress",
        "httpRoute",
        "podTemplate",
    }
    for path, (schema, required) in crd_fields.items():
        name = path.rsplit(".", 1)[-1]
        nested = any("default" in child for child in schema.get("properties", {}).values())
        if nested and not required and name not in meaningful and not name.endswith("Ref"):
            assert "default" in schema, path


def test_booleans_of_yaml_are_no_enum_values(crd_fields):
    for path, (schema, _) in crd_fields.items():
        for value in schema.get("enum", []):
            if path == "status.conditions.status":
                continue  # True and False are metav1.Condition's own, always quoted by machines
            assert value.lower() not in ("on", "off", "yes", "no", "true", "false"), path
            assert value[0].isupper(), path


def test_every_string_list_and_map_of_the_spec_is_bounded(crd_fields):
    for path, (schema, _) in crd_fields.items():
        if not path.startswith("spec.") or schema.get("enum"):
            continue
        if schema.get("type") == "string":
            assert "maxLength" in schema, path
        if schema.get("type") == "array":
            assert "maxItems" in schema, path
        if "additionalProperties" in schema:
            assert "maxProperties" in schema, path


def test_the_scale_subresource_points_at_fields_that_exist(definition, crd_fields):
    scale = definition["spec"]["versions"][0]["subresources"]["scale"]
    for path in scale.values():
        assert path.lstrip(".") in crd_fields
    assert crd_fields["spec.replicas"][0]["default"] == 1


def test_columns_show_what_a_reader_asks_for(definition):
    columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = [column["name"] for column in columns if not column.get("priority")]
    assert shown == ["Ready", "Reason", "Model", "Replicas", "Cache", "URL", "Age"]
