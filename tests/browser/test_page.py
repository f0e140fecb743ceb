"""The page itself: quick to appear, and no larger the longer it is open."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.browser.support import Dashboard, ask
from tests.integration.runtime.http.support import Served

OpenPage = Callable[..., Dashboard]
Serve = Callable[..., Served]
MINUTES = int(os.environ.get("FERRY_SOAK_MINUTES", "60"))
MB = 1024 * 1024


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


def heap(session: Any) -> int:
    """Bytes of live JavaScript objects, after collecting the others."""
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    return int(session.send("Runtime.getHeapUsage")["usedSize"])


def nodes(session: Any) -> int:
    return int(session.send("Memory.getDOMCounters")["nodes"])


def test_an_hours_questions_in_a_minute_leave_memory_flat(serve: Serve, open_page: OpenPage) -> None:
    """1800 answers reach the page, as many as in an hour: its own clock is turned forward."""
    served = serve()
    with httpx.Client(base_url=served.url, timeout=60) as client:
        ask(client, *(f"question number {number} of many" for number in range(60)))
    page = open_page(served.url, "about:blank")
    page.page.clock.install()
    page.go()
    page.region("Answers by tier").wait_for()
    session = page.page.context.new_cdp_session(page.page)

    def answers(count: int) -> None:
        for _ in range(count):
            with page.page.expect_response("**/dashboard/data"):
                page.page.clock.run_for(2_000)

    answers(600)  # measured: the heap has levelled off by then
    before, nodes_before = heap(session), nodes(session)
    answers(int(os.environ.get("FERRY_SOAK_ANSWERS", "500")))
    after, nodes_after = heap(session), nodes(session)
    assert after < before + 2 * MB
    assert nodes_after < nodes_before * 1.2 + 200


@pytest.mark.slow
@pytest.mark.timeout((MINUTES + 5) * 60)
def test_an_hour_open_leaves_memory_flat(serve: Serve, open_page: OpenPage) -> None:
    """With traffic all the while (FERRY_SOAK_MINUTES sets how long)."""
    served = serve()
    page = open_page(served.url)
    page.region("Answers by tier").wait_for()
    session = page.page.context.new_cdp_session(page.page)
    sizes: list[int] = []
    with httpx.Client(base_url=served.url, timeout=60) as client:
        for minute in range(MINUTES):
            for second in range(30):
                ask(client, f"question {minute * second} of an hour", tokens=8)
                page.page.wait_for_timeout(2_000)
            sizes.append(heap(session))
    first, last = min(sizes[: len(sizes) // 3]), min(sizes[-len(sizes) // 3 :])
    assert last < first + 2 * MB, sizes
