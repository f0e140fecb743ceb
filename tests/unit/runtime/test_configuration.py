"""Configuration is read from files, and read again while serving."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ferry_api.config_documents import cold_document, dump_config, hot_document
from ferry_api.runtime_config import ColdConfig, ModelConfig, RuntimeConfig
from ferry_runtime.configuration import ConfigurationSource, LiveConfiguration
from ferry_runtime.errors import ConfigurationError

CONFIG = RuntimeConfig(
    generation=3, cold=ColdConfig(model=ModelConfig(source="hf://a/b", served_name="served"))
)
MANIFEST = """\
apiVersion: serving.ferry.dev/v1alpha1
kind: InferenceService
metadata: {name: demo}
spec:
  model: {source: "hf://a/b"}
  batching: {maxBatchSize: 4}
"""


def _with_threshold(threshold: float, generation: int) -> RuntimeConfig:
    cache = CONFIG.hot.cache.model_copy(update={"similarity_threshold": threshold})
    hot = CONFIG.hot.model_copy(update={"cache": cache})
    return CONFIG.model_copy(update={"hot": hot, "generation": generation})


class Pod:
    """A ConfigMap's mount: files are links through ..data, which is swapped as a whole."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.versions = 0
        (root / "cold").mkdir(parents=True)
        (root / "cold" / "config.json").write_text(cold_document(CONFIG))
        (root / "hot").mkdir()
        self.swap(hot_document(CONFIG))
        (root / "hot" / "config.json").symlink_to("..data/config.json")

    def swap(self, text: str) -> None:
        self.versions += 1
        version = self.root / "hot" / f"..v{self.versions}"
        version.mkdir()
        (version / "config.json").write_text(text)
        link = self.root / "hot" / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self.root / "hot" / "..data")


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path / "etc")


def _live(path: Path, environment: Mapping[str, str] | None = None) -> LiveConfiguration:
    return LiveConfiguration(ConfigurationSource(path, environment or {}))


def test_a_pods_two_files_make_one_configuration(pod: Pod) -> None:
    assert _live(pod.root).config == CONFIG


def test_one_file_will_do(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(dump_config(CONFIG))

    assert _live(tmp_path / "config.yaml").config == CONFIG


def test_a_manifest_will_do(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(MANIFEST)

    config = _live(tmp_path / "demo.yaml").config

    assert (config.cold.model.served_name, config.cold.batching.max_batch_size) == ("demo", 4)


def test_the_environment_overrides_the_file(pod: Pod) -> None:
    live = _live(pod.root, {"MAX_BATCH_SIZE": "2", "MAX_NEW_TOKENS": "7"})

    assert live.config.cold.batching.max_batch_size == 2
    pod.swap(hot_document(_with_threshold(0.9, 4)))
    assert live.reread()
    assert live.config.hot.cache.similarity_threshold == 0.9
    assert live.config.hot.generation.max_tokens == 7


def test_a_swapped_file_is_applied_with_its_generation(pod: Pod) -> None:
    live = _live(pod.root)
    assert not live.reread()

    pod.swap(hot_document(_with_threshold(0.93, 4)))

    assert live.reread()
    assert live.config == _with_threshold(0.93, 4)
    assert live.problem is None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("{", id="not YAML"),
        pytest.param("[]", id="not a mapping"),
        pytest.param(json.dumps({"hot": {"cache": {"similarityThreshold": "high"}}}), id="wrong type"),
        pytest.param(json.dumps({"hot": {"cash": {}}}), id="unknown field"),
    ],
)
def test_invalid_content_is_not_applied_and_said(pod: Pod, content: str) -> None:
    live = _live(pod.root)

    pod.swap(content)

    assert not live.reread()
    assert live.config == CONFIG
    assert live.problem is not None
    assert "was not applied" in live.problem


def test_mended_content_clears_the_problem(pod: Pod) -> None:
    live = _live(pod.root)
    pod.swap("{")
    live.reread()

    pod.swap(hot_document(_with_threshold(0.91, 5)))

    assert live.reread()
    assert live.problem is None


def test_a_moment_without_files_changes_nothing(pod: Pod) -> None:
    live = _live(pod.root)
    (pod.root / "hot" / "config.json").unlink()

    assert not live.reread()
    assert live.problem is None


def test_a_changed_model_waits_for_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text(MANIFEST)
    live = _live(path)

    path.write_text(
        MANIFEST.replace("maxBatchSize: 4", "maxBatchSize: 5") + "  cache: {similarityThreshold: 0.9}\n"
    )

    assert live.reread()
    assert live.config.cold.batching.max_batch_size == 4
    assert live.config.hot.cache.similarity_threshold == 0.9
    assert live.problem is not None
    assert "restart" in live.problem


def test_the_environment_alone_will_do() -> None:
    live = LiveConfiguration(ConfigurationSource(None, {"MODEL_NAME": "gpt2"}))

    assert live.config.cold.model.source == "hf://gpt2"
    assert not live.reread()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no configuration file"),
        (b"\xff\xfe\x00", "cannot be read as text"),
        (b"kind: RuntimeConfig\n", "cold"),
        (MANIFEST.replace("hf://a/b", "a/b").encode(), "spec.model.source"),
    ],
    ids=["missing", "binary", "incomplete", "invalid manifest"],
)
def test_nothing_valid_to_begin_with_is_an_error(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigurationError, match=says):
        _live(path)
