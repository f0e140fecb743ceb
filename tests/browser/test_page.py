"""The page itself: quick to appear, and no larger the longer it is open."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import httpx
import pytest
from tests.browser.memory import MB, PageMemory, page_memory
from tests.browser.support import Dashboard, ask
from tests.integration.runtime.http.support import Served

OpenPage = Callable[..., Dashboard]
Serve = Callable[..., Served]
LOG = logging.getLogger(__name__)
MINUTES = int(os.environ.get("FERRY_SOAK_MINUTES", "60"))


def test_it_paints_before_a_second_is_over(serve: Serve, open_page: OpenPage) -> None:
    """The one figure of the dashboard that has a promise; the best of three, for other work may run."""
    url = serve().url
    paints = []
    for _ in range(3):
        page = open_page(url)
        page.region("Answers by tier").wait_for()
        paints.append(
            page.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        )
    assert min(paints) < 1_000


def test_it_asks_again_and_again_but_not_while_nobody_looks(serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve().url)
    with page.page.expect_request("**/dashboard/data"):
        page.region("Answers by tier").wait_for()
    page.page.evaluate(
        """() => { Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true});
        document.dispatchEvent(new Event('visibilitychange')) }"""
    )
    asked: list[str] = []
    page.page.on("request", lambda request: asked.append(request.url))
    page.page.wait_for_timeout(5_000)
    assert asked == []
    with page.page.expect_request("**/dashboard/data"):
        page.page.evaluate(
            """() => { Object.defineProperty(document, 'visibilityState', {value: 'visible'});
            document.dispatchEvent(new Event('visibilitychange')) }"""
        )


def test_what_a_page_keeps_is_seen(serve: Serve, open_page: OpenPage) -> None:
    """The measure itself: a leak of a page's script counts as its objects, whatever else the browser does."""
    page = open_page(serve().url)
    page.region("Answers by tier").wait_for()
    session = page.page.context.new_cdp_session(page.page)
    before = page_memory(session)
    page.page.evaluate("() => { window.kept = Array.from({length: 100_000}, (_, number) => ({number})) }")
    kept = page_memory(session)
    page.page.evaluate("() => { delete window.kept }")
    after = page_memory(session)
    assert min(kept.objects - before.objects, kept.objects - after.objects) > MB


def test_a_quarter_of_an_hours_answers_leave_memory_flat(serve: Serve, open_page: OpenPage) -> None:
    """An answer every two seconds, in less time than that: the page's own clock is turned forward."""
    served = serve()
    with httpx.Client(base_url=served.url, timeout=60) as client:
        ask(client, *(f"question number {number} of many" for number in range(60)))
    page = open_page(served.url, "about:blank")
    page.page.clock.install()
    page.go()
    page.region("Answers by tier").wait_for()
    session = page.page.context.new_cdp_session(page.page)
    page.answers(100)  # the windows on the page are full by then
    before = page_memory(session)
    page.answers(int(os.environ.get("FERRY_SOAK_ANSWERS", "400")))
    after = page_memory(session)
    assert after.objects < before.objects + MB
    assert after.total < before.total + 4 * MB
    assert after.nodes < before.nodes * 1.2 + 200


@pytest.mark.slow
@pytest.mark.timeout((MINUTES + 10) * 60)
def test_an_hour_open_leaves_memory_flat(serve: Serve, open_page: OpenPage) -> None:
    """With traffic all the while (FERRY_SOAK_MINUTES sets how long)."""
    served = serve()
    page = open_page(served.url)
    page.region("Answers by tier").wait_for()
    session = page.page.context.new_cdp_session(page.page)
    seen: list[PageMemory] = []
    with httpx.Client(base_url=served.url, timeout=60) as client:
        for minute in range(MINUTES):
            for second in range(30):
                ask(client, f"question {minute * second} of an hour", tokens=8)
                page.page.wait_for_timeout(2_000)
            if minute % 6 == 5:
                seen.append(page_memory(session))
                LOG.info("minute %d: %s", minute + 1, seen[-1])
    first, last = seen[0], seen[-1]
    assert last.objects < first.objects + MB, seen
    assert last.total < first.total + 4 * MB, seen
    assert last.nodes < first.nodes * 1.2 + 200, seen
