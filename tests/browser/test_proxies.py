"""Behind proxies: prefixes, several replicas, a server that goes away."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from tests.browser.support import Dashboard, ask, plain, proxy
from tests.integration.runtime.http.support import Served, in_thread

OpenPage = Callable[..., Dashboard]
Serve = Callable[..., Served]
Behind = Callable[..., str]
PREFIX = "/team-a/smollm2"


@pytest.mark.parametrize("keep", [False, True], ids=["stripped", "kept"])
@pytest.mark.parametrize("slash", ["", "/"], ids=["without slash", "with slash"])
def test_under_a_prefix_everything_works(
    serve: Serve, behind: Behind, open_page: OpenPage, slash: str, keep: bool
) -> None:
    served = serve(path_prefix=PREFIX if keep else "")
    url = behind([served.url], prefix=PREFIX, keep=keep)
    page = open_page(url)
    page.page.goto(f"{url}/dashboard{slash}#/playground")
    page.ask("Hello there, who are you?")
    page.page.reload()
    page.page.get_by_role("heading", name="Playground").wait_for()
    page.turn_to("Overview")
    page.region("Answers by tier").get_by_text("Exact hit").wait_for()
    assert page.parts("Answers by tier")["Generated"] == 1
    assert page.page.url == f"{url}/dashboard/#/overview"
    assert httpx.get(f"{url}/dashboard/assets/nope.js").status_code == 404


def two(serve: Serve) -> list[Served]:
    """Replicas that have generated three and five answers."""
    replicas = [serve(), serve()]
    for served, count in zip(replicas, (3, 5), strict=True):
        with httpx.Client(base_url=served.url, timeout=60) as client:
            ask(client, *(f"question {number} of this replica" for number in range(count)))
    return replicas


def test_replicas_are_told_apart_and_never_mixed(serve: Serve, behind: Behind, open_page: OpenPage) -> None:
    page = open_page(behind([served.url for served in two(serve)]))
    choice = page.page.get_by_label("replica")
    choice.wait_for()
    page.page.get_by_text("of 2 seen").wait_for()
    seen = set()
    for _ in range(12):
        seen.add(page.parts("Answers by tier")["Generated"])
        page.page.wait_for_timeout(500)
    assert len(seen) == 1
    values = [option.get_attribute("value") for option in choice.locator("option").all()]
    now = choice.input_value()
    choice.select_option(next(value for value in values if value != now))
    before = seen.pop()
    page.until(lambda: page.parts("Answers by tier")["Generated"] != before)
    assert page.parts("Answers by tier")["Generated"] in {3, 5}


def test_a_replica_is_left_when_it_is_gone_and_not_before(
    serve: Serve, behind: Behind, open_page: OpenPage
) -> None:
    """The page's own clock is turned: two seconds from one answer to the next."""
    targets = [served.url for served in two(serve)]
    page = open_page(behind(targets), "about:blank")
    page.page.clock.install()
    page.go()
    page.region("Answers by tier").wait_for()

    page.answers(40)
    shown = page.parts("Answers by tier")["Generated"]
    assert not page.page.locator(".notices p").count()
    targets.remove(targets[{3: 0, 5: 1}[shown]])
    page.answers(10)
    assert page.parts("Answers by tier")["Generated"] == shown
    page.answers(20)
    assert page.parts("Answers by tier")["Generated"] == {3: 5, 5: 3}[shown]
    assert "was missing from the last 17 answers" in plain(page.page.locator(".notices").inner_text())
    page.answers(40)
    assert not page.page.locator(".notices p").count()


def test_a_server_that_goes_away_is_said_and_old_numbers_are_marked(
    chromium: object, open_page: OpenPage, serve: Serve
) -> None:
    served = serve()
    with in_thread(proxy([served.url])) as url:
        page = open_page(url)
        page.region("Answers by tier").wait_for()
    page.expected = "ERR_CONNECTION"
    page.page.get_by_text("The server does not answer.").wait_for()
    assert "the last that arrived" in plain(page.page.locator(".notices").inner_text())


def test_a_model_that_is_not_ready_is_said_with_its_reason(serve: Serve, open_page: OpenPage) -> None:
    served = serve()
    served.stack.backend.die()
    page = open_page(served.url, "playground")
    page.page.locator(".notices").get_by_text("restarted").wait_for()
    assert page.page.get_by_role("button", name="Send").is_disabled()
