"""One click says that a stored answer is wrong, and it is gone."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from tests.browser.support import Dashboard, ask, indexed
from tests.integration.runtime.http.support import Served

from ferry_api.runtime_config import CacheConfig, HotConfig

OpenPage = Callable[..., Dashboard]
Serve = Callable[..., Served]
HOW_DO, HOW_CAN = "How do I reset my password?", "How can I reset my password?"


def outcome(client: httpx.Client, prompt: str) -> str:
    answer = client.post("/generate", json={"prompt": prompt, "max_new_tokens": 64})
    return answer.headers["x-ferry-cache"]


def test_a_near_miss_names_both_questions_and_evicts_the_stored_one(
    serve: Serve, open_page: OpenPage
) -> None:
    served = serve()
    with httpx.Client(base_url=served.url, timeout=60) as client:
        ask(client, "How do I enable the alarm?")
        indexed(client, 1)
        ask(client, "How do I disable the alarm?")
        page = open_page(served.url, "cache")
        near = page.region("Near misses").locator(".pair")
        near.wait_for()
        text = near.inner_text()
        assert "How do I enable the alarm?" in text
        assert "How do I disable the alarm?" in text
        assert "opposite words" in text
        assert outcome(client, "How do I enable the alarm?") == "exact"
        near.get_by_role("button", name="Wrong answer").click()
        near.get_by_text("Evicted").wait_for()
        assert outcome(client, "How do I enable the alarm?") == "miss"


def test_an_answer_from_a_similar_question_can_be_taken_back(serve: Serve, open_page: OpenPage) -> None:
    served = serve()
    with httpx.Client(base_url=served.url, timeout=60) as client:
        ask(client, HOW_DO)
        indexed(client, 1)
        assert outcome(client, HOW_CAN) == "semantic"
        page = open_page(served.url, "cache")
        pair = page.region("Answered from a similar question").locator(".pair")
        pair.get_by_role("button", name="Wrong answer").press("Enter")
        pair.get_by_text("Evicted").wait_for()
        # The keyboard is left where it was, and wherever it goes from there.
        assert page.page.evaluate("document.activeElement.textContent") == "Evicted"
        page.page.get_by_role("link", name="Overview").focus()
        with page.page.expect_response("**/dashboard/data"):
            page.page.wait_for_timeout(2_000)
        assert page.page.evaluate("document.activeElement.textContent") == "Overview"
        assert outcome(client, HOW_CAN) == "miss"
        assert client.get("/cache/stats").json()["entries"] == 1


def test_in_the_feed_and_an_entry_that_is_gone_already_is_said(serve: Serve, open_page: OpenPage) -> None:
    served = serve()
    with httpx.Client(base_url=served.url, timeout=60) as client:
        ask(client, HOW_DO, HOW_DO)
        page = open_page(served.url, "requests")
        page.expected = "404"
        button = page.region("Recent requests").first.get_by_role("button", name="Wrong answer")
        button.wait_for()
        client.post("/clear-cache")
        button.click()
        page.page.get_by_text("No such cache entry.").wait_for()


def test_what_there_is_no_cache_for_is_said(serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(cached=False).url, "cache")
    page.page.get_by_text("There is no cache yet: the service is starting.").wait_for()
    waiting = serve(cached=False, store_status=lambda: {"state": "waiting"})
    page = open_page(waiting.url, "cache")
    page.page.get_by_text("the Secret with the store's address is missing").wait_for()
    page = open_page(serve(hot=HotConfig(cache=CacheConfig(enabled=False))).url, "cache")
    page.page.get_by_text("cache.enabled is false: nothing is looked up").wait_for()
