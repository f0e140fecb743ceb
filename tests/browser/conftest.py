"""A real Chromium at a real server. Skipped, with the reason, where one of the parts is missing, unless
FERRY_BROWSER=required says that nothing may be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.browser.support import SCREENSHOTS, Dashboard, proxy
from tests.conftest import ROOT, missing
from tests.integration.runtime.http.support import Served, in_thread, threaded
from tests.unit.runtime.cache.embedders import WordBag

from ferry_api.runtime_config import CacheConfig, HotConfig
from ferry_runtime.api.dashboard.bundle import BUNDLE_FOLDER, PAGE, Bundle

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make install")

# Several browsers at once on few cores are slow, and each test waits for buckets of two seconds.
WAIT_MS = 30_000
_REQUIRED = "FERRY_BROWSER"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        missing("there is no chromium: apt-get install chromium", _REQUIRED)
    if not (BUNDLE_FOLDER / PAGE).exists():
        missing("the dashboard has not been built: make dashboard", _REQUIRED)
    # Chromium's sandbox needs user namespaces, which containers that run as root often lack.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=path, args=[*arguments, "--enable-precise-memory-info"]
        )
        yield browser
        browser.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Start a server with the built page, a cache and an embedder that the test can follow; ``options``
    are those of `build_stack`."""
    with ExitStack() as servers:

        def start(**options: Any) -> Served:
            hot = HotConfig(cache=CacheConfig(similarity_threshold=0.7))
            defaults = {"cached": True, "cache_embedder": WordBag(), "bundle": Bundle(), "hot": hot}
            return servers.enter_context(threaded(**{**defaults, **options}))

        yield start


@pytest.fixture
def behind() -> Iterator[Callable[..., str]]:
    """Put a proxy in front of addresses; ``options`` are those of `proxy`. Asked for before `open_page`, it
    outlives the pages, which ask until they are closed."""
    with ExitStack() as proxies:

        def start(targets: Sequence[str], **options: Any) -> str:
            return proxies.enter_context(in_thread(proxy(targets, **options)))

        yield start


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Dashboard]]:
    """Open the dashboard at an address; ``options`` are those of a browser context. At the end no page may
    have said anything to its console, or asked anybody but its server."""
    opened: list[Dashboard] = []

    def open_at(url: str, page: str = "", **options: Any) -> Dashboard:
        settings = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
        context = chromium.new_context(**{**settings, **options})
        context.set_default_timeout(WAIT_MS)
        dashboard = Dashboard(context.new_page(), url)
        opened.append(dashboard)
        dashboard.go(page)
        return dashboard

    yield open_at
    for dashboard in opened:
        dashboard.page.context.close()
    for dashboard in opened:
        assert dashboard.complaints == []
        assert dashboard.elsewhere == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, from the dashboard's own development dependencies."""
    path = ROOT / "runtime" / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
    if not path.exists():
        missing("axe-core is not installed: make dashboard", _REQUIRED)
    return path.read_text()


@pytest.fixture
def picture() -> Callable[[Dashboard, str], None]:
    """Keep a picture of the whole page, to be looked at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def take(dashboard: Dashboard, name: str) -> None:
        dashboard.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    return take
