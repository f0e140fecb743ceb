"""The admin's key: asked for, used, and kept nowhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest
from tests.browser.support import Dashboard
from tests.integration.runtime.http.support import Served

from ferry_runtime.api.auth.keys import parse_key_table
from ferry_runtime.api.auth.policy import KeyPolicy

OpenPage = Callable[..., Dashboard]
Serve = Callable[..., Served]


def entry(key: str, **fields: object) -> bytes:
    return json.dumps({"sha256": hashlib.sha256(key.encode()).hexdigest(), **fields}).encode()


KEYS = KeyPolicy(
    lambda: parse_key_table({"boss": entry("right", admin=True), "plain": entry("plain", tenant="a")})
)


@pytest.fixture
def page(serve: Serve, open_page: OpenPage) -> Dashboard:
    opened = open_page(serve(auth=KEYS).url, "playground")
    opened.expected = "40[13]"
    return opened


def enter(page: Dashboard, key: str) -> None:
    page.page.get_by_label("Admin key").fill(key)
    page.page.get_by_role("button", name="Open the dashboard").click()


def test_nothing_is_shown_without_a_key(page: Dashboard) -> None:
    page.page.get_by_label("Admin key").wait_for()
    assert page.page.get_by_role("navigation").count() == 0


@pytest.mark.parametrize(("key", "said"), [("wrong", "valid API key"), ("plain", "admin's API key")])
def test_a_key_that_is_not_an_admins_is_refused_in_words(page: Dashboard, key: str, said: str) -> None:
    enter(page, key)
    page.page.get_by_text(said).wait_for()
    assert page.page.get_by_label("Admin key").get_attribute("aria-invalid") == "true"


def test_the_right_key_opens_everything_and_is_kept_nowhere(page: Dashboard) -> None:
    enter(page, "right")
    page.page.get_by_role("heading", name="Playground").wait_for()
    page.ask("Hello there, who are you?")
    assert page.page.locator(".sent .badge").inner_text() == "Generated"
    kept = page.page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
    )
    assert "right" not in kept
    page.page.reload()
    page.page.get_by_label("Admin key").wait_for()


def test_forgetting_the_key_takes_the_numbers_away(page: Dashboard) -> None:
    enter(page, "right")
    page.page.get_by_role("button", name="Forget key").click()
    page.page.get_by_label("Admin key").wait_for()
    assert page.page.get_by_role("navigation").count() == 0
