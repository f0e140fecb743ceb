"""The load test from the page."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from tests.browser.support import Dashboard, plain
from tests.integration.runtime.http.support import Served

from ferry_api.runtime_config import HotConfig, QueueConfig

OpenPage = Callable[..., Dashboard]
Serve = Callable[..., Served]


def fill(page: Dashboard, **fields: str) -> None:
    for label, value in fields.items():
        page.page.locator(".load-form").get_by_label(label.replace("_", " ")).fill(value)


def complete(page: Dashboard, traffic: str, **fields: str) -> None:
    """Run a test to its end."""
    page.page.get_by_label("Traffic").select_option(traffic)
    fill(page, **fields)
    page.page.get_by_role("button", name="Start").click()
    page.region("Result").get_by_text("Complete").wait_for()


def test_it_runs_to_its_end_and_reports_what_the_server_counted(serve: Serve, open_page: OpenPage) -> None:
    served = serve()
    served.stack.backend.controls.step_seconds = 0.002
    page = open_page(served.url, "load")
    complete(page, "cached", Requests="40", At_a_time="16", Tokens_each="4", Seed="5")
    assert page.parts("Result") == {"Exact hit": 40}
    with httpx.Client(base_url=served.url) as client:
        answers = client.get("/dashboard/data").json()["totals"]["answers"]
    assert answers == {"miss": 5, "exact": 40}
    assert len(page.table("Every request")) == 40
    runs = page.region("Runs of this tab").first.locator("tbody tr")
    assert plain(runs.first.inner_text()).startswith("All cached")


def test_what_was_refused_is_no_answer(serve: Serve, open_page: OpenPage) -> None:
    served = serve(hot=HotConfig(queue=QueueConfig(max_requests=2)))
    served.stack.backend.controls.step_seconds = 0.05
    page = open_page(served.url, "load")
    complete(page, "unique", Requests="60", At_a_time="60", Tokens_each="8", Seed="5")
    parts = page.parts("Result")
    answered = parts.pop("Not cacheable", 0) + parts.pop("Generated", 0)
    refused = sum(parts.values())
    assert min(answered, refused) > 0
    run = page.region("Runs of this tab").first.locator("tbody tr").first.locator("td").all_inner_texts()
    assert run[1:4] == ["60", "60", str(refused)]
    seconds = float(page.stat("Result", "duration").removesuffix(" s"))
    assert float(page.stat("Result", "answers per second")) == pytest.approx(answered / seconds, rel=0.1)


def test_it_can_be_stopped_and_then_nothing_runs_on(serve: Serve, open_page: OpenPage) -> None:
    served = serve()
    backend = served.stack.backend
    backend.controls.step_seconds = 0.05
    page = open_page(served.url, "load")
    fill(page, Requests="500", At_a_time="8", Tokens_each="32")
    page.page.get_by_role("button", name="Start").click()
    page.region("Result").get_by_text("Running").wait_for()
    page.page.get_by_role("button", name="Stop").click()
    page.region("Result").get_by_text("Stopped.", exact=True).wait_for()
    with httpx.Client(base_url=served.url) as client:

        def idle() -> bool:
            live = client.get("/dashboard/data").json()["live"]
            return bool(live["running"] == live["waiting"] == 0)

        page.until(idle, seconds=5)
    assert backend.cancelled
    page.page.get_by_role("button", name="Start").wait_for()


def test_what_is_too_much_is_refused_in_words(serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve().url, "load")
    page.expected = "400"
    fill(page, Requests="0")
    # The browser would keep the form from being sent: what it keeps from users, others may send.
    page.page.evaluate("document.querySelector('.load-form').noValidate = true")
    page.page.get_by_role("button", name="Start").click()
    page.region("Result").get_by_text("requests must be").wait_for()
