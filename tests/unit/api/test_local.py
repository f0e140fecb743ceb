from __future__ import annotations

from typing import Any

import pytest

from ferry_api.local import local_notes, local_problems
from ferry_api.schema import SpecModel
from ferry_api.shape import members
from ferry_api.spec import InferenceServiceSpec
from ferry_api.validation import parse


def service(spec: dict[str, Any]) -> Any:
    return parse(
        {
            "apiVersion": "serving.ferry.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": "sample"},
            "spec": {"model": {"source": "package://a"}, **spec},
        }
    )


# What `ferry run` does on one machine; every other field of the spec is noted when it is written.
APPLIED = {
    *("model", "engine", "generation", "batching", "cache"),
    *("auth", "network"),  # objects whose fields are noted one by one
    *("updateStrategy", "drainTimeout"),  # nothing to update here; the drain is the same
}

WRITTEN: dict[str, Any] = {
    "replicas": 2,
    "scaling": {"controller": "External", "maxReplicas": 2},
    "suspend": True,
    "resources": {"limits": {"nvidia.com/gpu": 1}},
    "resourceClaims": [{"name": "a", "resourceClaimName": "b"}],
    "nodeSelector": {"a": "b"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"podAffinity": {}},
    "topologySpreadConstraints": [{"topologyKey": "zone"}],
    "priorityClassName": "a",
    "runtimeClassName": "a",
    "imagePullSecrets": [{"name": "a"}],
    "serviceAccountName": "a",
    "podTemplate": {"metadata": {}},
}


@pytest.mark.parametrize("name", [member.name for member in members(InferenceServiceSpec)])
def test_every_field_is_applied_or_noted(name):
    if name in APPLIED:
        return
    (note,) = local_notes(service({name: WRITTEN[name]}))
    assert note.path == f"spec.{name}"


@pytest.mark.parametrize(
    ("spec", "path", "says"),
    [
        (
            {"model": {"source": "hf://a/b", "secretRef": {"name": "t"}}},
            "spec.model.secretRef",
            "set HF_TOKEN",
        ),
        ({"model": {"source": "hf://a/b", "storage": {"size": "1Gi"}}}, "spec.model.storage", "cache folder"),
        ({"engine": {"image": "a"}}, "spec.engine.image", "the installed Ferry"),
        ({"engine": {"args": ["a"]}}, "spec.engine.args", "ferry run"),
        ({"engine": {"env": [{"name": "A", "value": "b"}]}}, "spec.engine.env", "before ferry run"),
        ({"cache": {"redis": {"managed": {}}}}, "spec.cache.redis.managed", "embedded store"),
        (
            {"cache": {"redis": {"external": {"urlSecretRef": {"name": "r"}}}}},
            "spec.cache.redis.external",
            "set REDIS_URL",
        ),
        ({"auth": {"apiKeysSecretRef": {"name": "k"}}}, "spec.auth.apiKeysSecretRef", "only this machine"),
        ({"network": {"ingress": {"host": "a.example"}}}, "spec.network.ingress", "for a cluster"),
        (
            {"network": {"httpRoute": {"parentRefs": [{"name": "g"}]}}},
            "spec.network.httpRoute",
            "for a cluster",
        ),
    ],
)
def test_a_note_says_what_holds_instead(spec, path, says):
    (note,) = local_notes(service(spec))
    assert note.path == path
    assert says in str(note)


def test_nothing_is_noted_of_a_manifest_that_holds_everywhere():
    assert local_notes(service({"cache": {"ttl": "2h"}, "replicas": 1, "suspend": False})) == []


def test_a_volume_of_a_cluster_cannot_be_served_here():
    (problem,) = local_problems(service({"model": {"source": "pvc://weights/a"}}))
    assert problem.path == "spec.model.source"
    assert "write file:///PATH" in problem.message
    assert local_problems(service({})) == []


def test_specs_are_immutable():
    spec: SpecModel = service({}).spec
    with pytest.raises(ValueError, match="frozen"):
        spec.replicas = 3  # type: ignore[attr-defined]
