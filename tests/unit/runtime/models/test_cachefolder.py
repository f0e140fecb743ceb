"""An entry is whole or absent, whatever happens while it is made."""

from __future__ import annotations

import errno
import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest

from ferry_runtime.errors import ModelPreparationError
from ferry_runtime.models.cachefolder import CacheFolder, default_cache_folder
from ferry_runtime.models.prepared import PreparedModel, model_digest, write_record
from ferry_runtime.models.progress import Progress, Stage, silent

KEY = "model-0123"


@pytest.fixture
def cache(tmp_path: Path) -> CacheFolder:
    return CacheFolder(tmp_path / "cache")


def _fill(staging: Path, origin: Path) -> None:
    shutil.copytree(origin, staging, dirs_exist_ok=True)
    digest = model_digest(staging)
    write_record(staging, PreparedModel(directory=str(staging), source="s", digest=digest, weights_bytes=1))


def _build(cache: CacheFolder, origin: Path) -> None:
    with cache.lock(KEY, silent), cache.building(KEY, 1) as staging:
        _fill(staging, origin)


def test_what_was_built_is_found_in_its_place(
    cache: CacheFolder, model_directory: Callable[..., Path]
) -> None:
    assert cache.find(KEY) is None
    _build(cache, model_directory())

    found = cache.find(KEY)
    assert found is not None
    assert found.path == cache.entry(KEY)


def test_a_cache_that_moved_is_as_good(
    cache: CacheFolder, model_directory: Callable[..., Path], tmp_path: Path
) -> None:
    _build(cache, model_directory())
    cache.root.rename(tmp_path / "elsewhere")

    found = CacheFolder(tmp_path / "elsewhere").find(KEY)

    assert found is not None
    assert found.path.is_dir()


def test_a_failure_in_the_middle_leaves_nothing(
    cache: CacheFolder, model_directory: Callable[..., Path]
) -> None:
    def fail() -> None:
        with cache.lock(KEY, silent), cache.building(KEY, 1) as staging:
            _fill(staging, model_directory())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert cache.find(KEY) is None
    assert [path.name for path in (cache.root / "models").iterdir()] == [f"{KEY}.lock"]


def test_what_a_killed_process_left_is_removed(
    cache: CacheFolder, model_directory: Callable[..., Path]
) -> None:
    half = cache.root / "models" / f".{KEY}.abcd1234"
    half.mkdir(parents=True)
    (half / "model.safetensors").write_bytes(b"half")

    _build(cache, model_directory())

    assert not half.exists()
    assert cache.find(KEY) is not None


def test_a_damaged_entry_is_made_anew(cache: CacheFolder, model_directory: Callable[..., Path]) -> None:
    origin = model_directory()
    _build(cache, origin)
    weights = cache.entry(KEY) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    assert cache.find(KEY) is None

    _build(cache, origin)

    assert cache.find(KEY) is not None


def test_whoever_waits_for_the_lock_is_told(cache: CacheFolder) -> None:
    told: Queue[Progress] = Queue()

    def wait() -> None:
        with cache.lock(KEY, told.put):
            pass

    with ThreadPoolExecutor(1) as threads:
        with cache.lock(KEY, silent):
            waiting = threads.submit(wait)
            assert told.get(timeout=10).stage is Stage.WAIT
            assert not waiting.done()
        waiting.result(timeout=10)


def test_a_full_disk_is_seen_beforehand(cache: CacheFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1))

    with (
        pytest.raises(ModelPreparationError, match=r"needs 5\.0 GB"),
        cache.lock(KEY, silent),
        cache.building(KEY, 5 * 10**9),
    ):
        pytest.fail("nothing may be built")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        # How the safetensors library passes it on.
        Exception('Error while serializing: I/O error: Os { code: 28, kind: StorageFull, message: "…" }'),
    ],
    ids=["system", "library"],
)
def test_a_disk_that_fills_up_is_said_in_a_sentence(cache: CacheFolder, error: Exception) -> None:
    with (
        pytest.raises(ModelPreparationError, match="is full: free some space"),
        cache.lock(KEY, silent),
        cache.building(KEY, 1),
    ):
        raise error


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_read_only_cache_is_said_in_a_sentence(
    cache: CacheFolder, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", refuse)

    with (
        pytest.raises(ModelPreparationError, match="FERRY_CACHE_DIR"),
        cache.lock(KEY, silent),
    ):
        pytest.fail("there is nothing to lock")


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")

    with (
        pytest.raises(ModelPreparationError, match="cannot be written"),
        CacheFolder(tmp_path / "cache").lock(KEY, silent),
    ):
        pytest.fail("there is nothing to lock")


def test_other_errors_are_left_as_they_are(cache: CacheFolder) -> None:
    with pytest.raises(KeyError), cache.lock(KEY, silent), cache.building(KEY, 1):
        raise KeyError


def test_the_folder_is_the_users_unless_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FERRY_CACHE_DIR", str(tmp_path))
    assert default_cache_folder() == tmp_path

    monkeypatch.delenv("FERRY_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache_folder() == tmp_path / "xdg" / "ferry"
