from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ferry_api.limits import NOT_BUILT
from ferry_api.resource import InferenceService, ObjectMeta
from ferry_api.shape import Kind, members
from ferry_api.spec import InferenceServiceSpec
from ferry_api.spec.model import ModelSpec
from ferry_api.spec.serving import BatchingSpec
from ferry_api.status import ConditionType
from ferry_api.validation import parse, parse_stored, validate
from ferry_api.values import Duration


def manifest(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "serving.ferry.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "sample"},
        "spec": {"model": {"source": "package://a"}, **spec},
    }


def test_a_typing_mistake_hides_no_broken_rule_elsewhere():
    problems = validate(
        manifest(batching={"maxBatchSize": "8", "maxWait": "1h"}, cache={"ttl": "0s"}, replicas="2")
    )
    assert {problem.path for problem in problems} == {
        "spec.batching.maxBatchSize",
        "spec.batching.maxWait",
        "spec.cache.ttl",
        "spec.replicas",
    }


def test_a_rule_over_two_fields_waits_until_both_have_their_type():
    both = {"controller": "External", "minReplicas": 5, "maxReplicas": 2}
    assert [problem.path for problem in validate(manifest(scaling=both))] == ["spec.scaling.minReplicas"]
    broken = {"controller": "External", "minReplicas": 5, "maxReplicas": "2"}
    assert [problem.path for problem in validate(manifest(scaling=broken))] == ["spec.scaling.maxReplicas"]


def test_an_object_made_in_python_is_judged_by_the_same_rules():
    service = InferenceService(
        metadata=ObjectMeta(name="Sample"),
        spec=InferenceServiceSpec(
            model=ModelSpec(source="nowhere"), batching=BatchingSpec(max_wait=Duration("1h"))
        ),
    )
    assert {problem.path for problem in validate(service)} == {
        "metadata.name",
        "spec.model.source",
        "spec.batching.maxWait",
    }


@pytest.mark.parametrize("value", [None, 1, "text", [], True])
def test_a_spec_of_another_type_is_a_problem_not_an_exception(value):
    document = {**manifest(), "spec": value}
    assert [problem.path for problem in validate(document)] == ["spec"]


@pytest.mark.parametrize("value", [None, 1, "text", [], {}])
def test_metadata_of_another_type_is_a_problem_not_an_exception(value):
    document = {**manifest(), "metadata": value}
    assert validate(document)[0].path.startswith("metadata")


def test_keys_that_are_no_text_are_a_problem():
    (problem,) = validate(manifest(nodeSelector={1: "a"}))
    assert problem.path == "spec.nodeSelector"
    assert "the key 1 must be a string" in problem.message


def test_a_status_with_fields_of_a_newer_release_is_read():
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Serving",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "severity": "Info",
    }
    service = parse({**manifest(), "status": {"conditions": [condition], "shards": 3, "replicas": 1}})
    ready = service.status.condition(ConditionType.READY)
    assert ready is not None
    assert ready.reason == "Serving"
    assert service.status.condition(ConditionType.AVAILABLE) is None


def test_fields_of_a_newer_crd_are_left_out_of_what_was_stored():
    stored = manifest(
        cache={"ttl": "2h", "tier": "warm"},
        adapters=[{"name": "a"}],
        tolerations=[{"operator": "Exists", "weight": 1}],
        podTemplate={"spec": {"hostNetwork": True, "containers": [{"name": "runtime", "stdin": True}]}},
        affinity={"podAffinity": {"anything": 1}},
    )
    service = parse_stored(stored)
    assert str(service.spec.cache.ttl) == "2h"
    assert service.spec.tolerations[0].operator == "Exists"
    written = service.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert "adapters" not in written
    # Kubernetes' own types are passed on whole.
    assert written["podTemplate"]["spec"]["hostNetwork"] is True
    assert written["podTemplate"]["spec"]["containers"][0]["stdin"] is True
    assert written["affinity"] == {"podAffinity": {"anything": 1}}
    with pytest.raises(ValidationError):
        parse(stored)


def test_an_error_does_not_carry_the_manifests_values():
    with pytest.raises(ValidationError) as raised:
        parse_stored(manifest(engine={"env": [{"name": "TOKEN", "value": ["hunter2"]}]}))
    assert "hunter2" not in str(raised.value)
    assert "hunter2" not in repr(raised.value)


def test_every_limit_stands_on_a_field():
    for limit in NOT_BUILT:
        model: Any = InferenceServiceSpec
        path = ""
        for name in limit.path.split("."):
            found = {member.name: member for member in members(model, path)}
            assert name in found, limit.path
            member = found[name]
            path = f"{path}.{name}".lstrip(".")
            model = member.shape.model
        assert limit.rule in member.shape.rules


def test_every_enum_of_the_spec_knows_its_default():
    for member in members(InferenceServiceSpec):
        if member.shape.kind is Kind.STRING and member.shape.enum:
            assert member.default in member.shape.enum
