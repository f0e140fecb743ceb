"""Every invalid manifest is refused by the CRD and by Python, with a sentence that helps."""

from __future__ import annotations

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
