"""For everybody: axe finds nothing serious, keys reach everything, nothing is wider than the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.browser.support import Dashboard, ask, indexed
from tests.browser.test_access import KEYS
from tests.integration.runtime.http.support import Served, threaded
from tests.unit.runtime.cache.embedders import WordBag

from ferry_api.runtime_config import CacheConfig, HotConfig
from ferry_runtime.api.dashboard.bundle import Bundle

OpenPage = Callable[..., Dashboard]
PAGES = ("overview", "requests", "cache", "playground", "load", "architecture")


@pytest.fixture(scope="module")
def served(chromium: Any) -> Iterator[Served]:
    """With something to see on every page."""
    hot = HotConfig(cache=CacheConfig(similarity_threshold=0.7))
    with (
        threaded(cached=True, cache_embedder=WordBag(), bundle=Bundle(), hot=hot) as served,
        httpx.Client(base_url=served.url, timeout=60) as client,
    ):
        ask(client, "How do I enable the alarm?", "How do I enable the alarm?", "How do I reset my password?")
        indexed(client, 2)
        ask(client, "How do I disable the alarm?", "How can I reset my password?")
        yield served


def fill(page: Dashboard, name: str) -> None:
    """Bring a page into the state in which it shows most."""
    page.page.get_by_role("heading", level=1).wait_for()
    if name == "playground":
        page.page.get_by_label("Side by side").check()
        page.ask("How do I enable the alarm?")
    elif name == "load":
        page.page.get_by_label("Requests").fill("12")
        page.page.get_by_role("button", name="Start").click()
        page.region("Every request").wait_for()
        page.region("Result").get_by_text("Complete").wait_for()
    elif name == "overview":
        page.table("Batch sizes")


@pytest.fixture
def inspect(axe: str, picture: Callable[[Dashboard, str], None]) -> Callable[[Dashboard, str], list[str]]:
    """What axe finds serious or critical on a page, which is also kept as a picture."""

    def look(page: Dashboard, name: str) -> list[str]:
        picture(page, name)
        page.page.evaluate(axe)
        found = page.page.evaluate("axe.run().then(result => result.violations)")
        return [
            f"{violation['help']}: {violation['nodes'][0]['html']}"
            for violation in found
            if violation["impact"] in {"serious", "critical"}
        ]

    return look


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(
    served: Served,
    open_page: OpenPage,
    inspect: Callable[[Dashboard, str], list[str]],
    name: str,
    scheme: str,
) -> None:
    page = open_page(served.url, name, color_scheme=scheme)
    fill(page, name)
    assert inspect(page, f"{name}-{scheme}") == []


@pytest.mark.parametrize("name", PAGES)
def test_a_narrow_screen_needs_no_scrolling_sideways(
    served: Served, open_page: OpenPage, picture: Callable[[Dashboard, str], None], name: str
) -> None:
    page = open_page(served.url, name, viewport={"width": 360, "height": 740})
    fill(page, name)
    picture(page, f"{name}-360")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_key_form_is_accessible(
    open_page: OpenPage, inspect: Callable[[Dashboard, str], list[str]], serve: Callable[..., Served]
) -> None:
    page = open_page(serve(auth=KEYS).url)
    page.expected = "401"
    page.page.get_by_label("Admin key").wait_for()
    assert inspect(page, "key-form") == []


def test_keys_alone_reach_a_page_and_its_controls(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.url)
    page.region("Answers by tier").wait_for()
    keyboard = page.page.keyboard
    keyboard.press("Tab")
    assert page.page.evaluate("document.activeElement.innerText") == "Skip to the page"
    keyboard.press("Enter")
    assert page.page.evaluate("document.activeElement.id") == "main"
    keyboard.press("Tab")  # the colours
    keyboard.press("Tab")  # the first chart's table
    assert "Throughput" in page.page.evaluate("document.activeElement.textContent")
    keyboard.press("Enter")
    page.region("Throughput").get_by_role("columnheader", name="Exact hit").wait_for()


def test_turning_to_a_page_moves_the_focus_there_and_names_it(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.url)
    page.region("Answers by tier").wait_for()
    page.turn_to("Cache")
    page.page.get_by_role("heading", level=1, name="Cache").wait_for()
    assert page.page.evaluate("document.activeElement.id") == "main"
    assert page.page.title().startswith("Cache")


def test_the_colours_can_be_chosen_and_last(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.url, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    page.region("Answers by tier").wait_for()
    light = page.page.evaluate(ground)
    page.page.get_by_role("button", name="Colours: system").click()
    page.page.get_by_role("button", name="Colours: light").click()
    dark = page.page.evaluate(ground)
    assert dark != light
    page.page.reload()
    page.region("Answers by tier").wait_for()
    assert page.page.evaluate(ground) == dark
