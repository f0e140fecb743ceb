"""Every invalid manifest is refused by the CRD and by Python, with a sentence that helps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ferry_api.limits import NOT_BUILT
from ferry_api.validation import validate


def test_the_api_server_refuses_at_the_field(invalid, admission):
    refusals = admission.create(invalid.manifest).refusals
    assert invalid.at in [refusal.path for refusal in refusals]


def test_the_api_server_says_the_sentence_of_a_rule(invalid, admission):
    if invalid.server != invalid.python:
        return  # refused by the schema itself: a real server's words are not jsonschema's
    refusals = admission.create(invalid.manifest).refusals
    assert any(refusal.path == invalid.at and invalid.server in refusal.message for refusal in refusals)


def test_python_refuses_with_a_sentence(invalid):
    problems = validate(invalid.manifest)
    assert any(problem.path == invalid.at and invalid.python in problem.message for problem in problems), (
        problems
    )


def test_nothing_else_is_wrong_with_the_manifest(invalid):
    """One row, one fault: otherwise a row would pass for the wrong reason."""
    problems = validate(invalid.manifest)
    assert {problem.path for problem in problems} == {invalid.at}


def test_ids_are_unique_and_there_are_enough(invalid_rows):
    ids = [row.id for row in invalid_rows]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 60


def test_every_limit_of_the_release_has_a_row(invalid_rows):
    said = " ".join(row.python for row in invalid_rows)
    for limit in NOT_BUILT:
        assert limit.rule.message in said


def test_every_rule_of_the_crd_refuses_some_row(invalid_rows, definition, admission):
    """A rule that no row breaks could as well be `true`."""
    broken = {
        (re.sub(r"\[[0-9]+\]", "[]", refusal.path), refusal.message)
        for row in invalid_rows
        for refusal in admission.create(row.manifest).refusals
    }
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, rule in _rules(schema["properties"]["spec"], "spec"):
        if "oldSelf" not in rule["rule"] and rule["message"] not in OBVIOUS:
            assert (path + rule.get("fieldPath", ""), rule["message"]) in broken


# One sentence for a format that many fields share; a row for one of them is enough.
OBVIOUS = frozenset(
    {
        "must be an object's name: lower-case letters, digits, dashes and dots",
        "must be an entry's key: letters, digits, dashes, underscores and dots",
        "every key must be a label key, such as example.com/team",
        "must be an image reference, such as registry/name:tag",
        "must be a label key, such as example.com/team",
        "must be a label value: letters, digits, dashes, underscores and dots",
        "must be a host name such as llm.example.com, without scheme, port or path",
    }
)


def test_every_shared_format_refuses_some_row(invalid_rows):
    said = {row.server for row in invalid_rows}
    assert said >= OBVIOUS


def _rules(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from ((path, rule) for rule in schema.get("x-kubernetes-validations", []))
    for name, child in schema.get("properties", {}).items():
        yield from _rules(child, f"{path}.{name}")
    for name, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(name), dict):
            yield from _rules(schema[name], path + suffix)
