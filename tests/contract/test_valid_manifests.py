"""Every valid manifest, alone and combined, is accepted by the CRD and by Python and means the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ferry_api import crd
from ferry_api.manifest import load_manifest
from ferry_api.translation import to_runtime_config
from ferry_api.validation import parse, parse_stored, validate

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def test_both_accept_it(valid, admission):
    assert admission.create(valid.manifest).refusals == []
    assert validate(valid.manifest) == []


def test_it_becomes_a_runtime_configuration(valid):
    config = to_runtime_config(parse(valid.manifest))
    assert config.cold.model.source == valid.manifest["spec"]["model"]["source"]


def test_what_a_newer_crd_adds_anywhere_changes_nothing(valid, definition):
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    grown = _grown(schema, valid.manifest)
    assert grown != valid.manifest
    assert parse_stored(grown).spec == parse(valid.manifest).spec
    assert validate(grown)


def _grown(schema: dict[str, Any], value: Any) -> Any:
    """The value with one more field in each object that the schema describes to its end."""
    if isinstance(value, list):
        return [_grown(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    fields, entries = schema.get("properties", {}), schema.get("additionalProperties", {})
    grown = {key: _grown(fields.get(key, entries), item) for key, item in value.items()}
    described = fields and not schema.get("x-kubernetes-preserve-unknown-fields")
    return {**grown, "addedLater": {"a": [1]}} if described else grown


@settings(max_examples=150, derandomize=True, deadline=None)
@given(data=st.data())
def test_combined_rows_get_the_same_verdict_and_meaning(admission, valid_rows, data):
    chosen = data.draw(
        st.lists(st.sampled_from(valid_rows), min_size=2, max_size=6, unique_by=lambda row: row.id)
    )
    manifest: dict[str, Any] = {}
    for row in chosen:
        _merge(manifest, row.manifest)
    outcome = admission.create(manifest)
    assert outcome.accepted == (validate(manifest) == [])
    if outcome.accepted:
        assert parse(manifest) == parse(outcome.stored)
        assert parse(manifest) == load_manifest(yaml.safe_dump(outcome.stored))


def _merge(into: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_valid(path, admission):
    documents = [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]
    ours = [document for document in documents if document["kind"] == "InferenceService"]
    assert ours
    for document in ours:
        assert admission.create(document).refusals == []
    assert load_manifest(path).name == ours[0]["metadata"]["name"]


def test_the_first_example_is_there():
    assert "smollm2" in [path.stem for path in EXAMPLES]


def test_the_definition_names_the_resource(definition):
    assert definition["metadata"]["name"] == crd.FILE_NAME.removesuffix(".yaml")
    assert definition["spec"]["names"]["shortNames"] == ["infsvc"]
