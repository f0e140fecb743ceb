"""For any manifest at all, the API server's verdict and Python's are the same.

Manifests are drawn from the CRD's schema: a few fields each, with values at, inside and past their
bounds, so that both verdicts are common.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from ferry_api import crd
from ferry_api.validation import validate

SCHEMA: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "crds" / crd.FILE_NAME).read_text(encoding="utf-8")
)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def _messages(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (rule["message"] for rule in schema.get("x-kubernetes-validations", []))
        for child in schema.values():
            yield from _messages(child)


RULES = frozenset(_messages(SCHEMA))

DURATIONS = [
    "0s",
    "50ms",
    "100ms",
    "1s",
    "9s",
    "1m30s",
    "1h",
    "24h",
    "8760h",
    "8761h",
    "1.5s",
    "1 day",
    "-1s",
    "5",
    "",
]
QUANTITIES = [
    "1",
    "64Mi",
    "1Gi",
    "1.5Gi",
    "200m",
    "1e9",
    "128Mi",
    "60k",
    "10Ti",
    "-1",
    "1GB",
    "",
    "Mi",
    4,
    0,
    8 << 30,
]
WORDS = [
    *(
        "a",
        "weights",
        "my-secret",
        "a.b",
        "token",
        "ca.crt",
        "Upper",
        "-a",
        "a-",
        "a b",
        "ä",
        "",
        "x" * 63,
        "x" * 300,
    ),
    *(
        "example.com/team",
        "app.kubernetes.io/name",
        "NAME",
        "FERRY_X",
        "REDIS_URL",
        "*.example.com",
        "v1:tag",
    ),
    *(
        "hf://gpt2",
        "hf://a/b@main",
        "pvc://weights/a",
        "pvc://weights/../a",
        "file:///models/a",
        "package://a-b",
    ),
    *("s3://bucket/a", "oci://registry/a:1", "http://vllm:8000/v1", "https://u:p@vllm/v1"),
]
NAMES = st.one_of(
    st.sampled_from(["a", "a1", "llama-3.1-8b", "x-redis", "x-runtime", "a" * 45, "a" * 46, "a-", "3b"]),
    st.text(string.ascii_lowercase + string.digits + "-.", min_size=1, max_size=50),
)


def _values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of one field, most of them of the right type."""
    wrong = st.sampled_from([None, True, 3, 0.75, "text", [], {}, "5", [None]])
    return st.one_of(*[_right(schema)] * 19, wrong)


def _right(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if schema.get("x-kubernetes-int-or-string"):
        return st.sampled_from(QUANTITIES)
    if "enum" in schema:
        return st.sampled_from([*schema["enum"] * 3, schema["enum"][0].lower()])
    match schema["type"]:
        case "string" if "(h|m|s|ms)" in schema.get("pattern", ""):
            return st.sampled_from(DURATIONS)
        case "string":
            return st.sampled_from(WORDS)
        case "boolean":
            return st.booleans()
        case "integer":
            low, high = schema.get("minimum", 0), schema.get("maximum", 1 << 40)
            return st.one_of(st.sampled_from([low, low - 1, high, high + 1]), *[st.integers(low, high)] * 4)
        case "number":
            return st.sampled_from([0, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, -0.1])
        case "array":
            return st.lists(_right(schema["items"]), max_size=3)
        case _ if "additionalProperties" in schema:
            keys = st.sampled_from([*WORDS, "cpu", "memory", "nvidia.com/gpu"])
            return st.dictionaries(keys, _right(schema["additionalProperties"]), max_size=3)
    return _objects(schema)


def _objects(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    properties = schema.get("properties", {})
    required = {name: _values(properties[name]) for name in schema.get("required", [])}
    optional = {name: st.deferred(lambda child=child: _values(child)) for name, child in properties.items()}

    @st.composite
    def some(draw: st.DrawFn) -> dict[str, Any]:
        names = draw(st.lists(st.sampled_from(sorted(optional)), max_size=2)) if optional else []
        left_out = draw(st.integers(0, 39)) == 0
        chosen = {name: optional[name] for name in names} | ({} if left_out else required)
        return {name: draw(values) for name, values in chosen.items()}

    return some()


MANIFESTS = st.builds(
    lambda name, source, spec: {
        "apiVersion": "serving.ferry.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {**spec, "model": {"source": source, **(spec.get("model") or {})}}
        if isinstance(spec.get("model") or {}, dict)
        else spec,
    },
    name=st.one_of(*[st.just("sample")] * 4, NAMES),
    source=st.sampled_from(["package://a", "hf://a/b"]),
    spec=_objects(SCHEMA["properties"]["spec"]),
)

# The same manifests in every run: a change is judged by what it changes.
SETTINGS = settings(
    max_examples=250, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@SETTINGS
@given(manifest=MANIFESTS)
def test_both_give_the_same_verdict_in_the_same_words(admission, manifest):
    refusals = admission.create(manifest).refusals
    problems = validate(manifest)
    event("refused" if refusals else "accepted")
    assert (refusals == []) == (problems == []), (refusals, problems)
    if all(refusal.message in RULES for refusal in refusals):
        told = {(refusal.path, refusal.message) for refusal in refusals}
        assert told == {(problem.path, problem.message) for problem in problems}
