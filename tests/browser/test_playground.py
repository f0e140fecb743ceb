"""The playground: what is sent, what arrives, and what the cache says about it."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
from tests.browser.support import Dashboard, plain
from tests.integration.runtime.http.support import Served

OpenPage = Callable[..., Dashboard]
Serve = Callable[..., Served]
QUESTION = "What is the capital of France?"


def test_an_answer_streams_in_and_its_headers_are_shown(serve: Serve, open_page: OpenPage) -> None:
    served = serve()
    served.stack.backend.controls.step_seconds = 0.1
    page = open_page(served.url, "playground")
    page.page.get_by_label("Prompt", exact=True).fill(QUESTION)
    page.page.get_by_role("button", name="Send").click()
    text = page.page.get_by_test_id("reply-text")
    page.until(lambda: len(text.inner_text()) > 3)
    first = text.inner_text()
    page.page.get_by_text("complete after").wait_for(state="attached")
    assert text.inner_text().startswith(first)
    assert len(text.inner_text()) > len(first)
    headers = page.page.locator(".headers").inner_text()
    assert "x-ferry-cache\nmiss" in plain(headers)
    assert "x-ferry-cache-entry" in headers


def test_parameters_are_sent_and_empty_ones_are_not(serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve().url, "playground")
    page.page.get_by_label("Max tokens").fill("5")
    page.page.get_by_label("Temperature").fill("0.5")
    page.page.get_by_role("spinbutton", name="Seed").fill("7")
    page.page.get_by_label("Similarity at least").fill("0.9")
    page.page.get_by_label("Cache", exact=True).select_option("no-cache, no-store")
    with page.page.expect_request("**/v1/chat/completions") as asked:
        page.ask(QUESTION)
    body = json.loads(asked.value.post_data)
    assert body == {
        "model": "smol",
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": 5,
        "temperature": 0.5,
        "seed": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    headers = asked.value.all_headers()
    assert headers["cache-control"] == "no-cache, no-store"
    assert headers["x-ferry-cache-threshold"] == "0.9"


def test_cached_and_uncached_side_by_side(serve: Serve, open_page: OpenPage) -> None:
    served = serve()
    page = open_page(served.url, "playground")
    page.ask(QUESTION)
    page.page.get_by_label("Side by side").check()
    page.ask(QUESTION)
    cached, fresh = page.region("With the cache"), page.region("Without (no-cache)")
    cached.get_by_text("Exact hit").wait_for()
    fresh.get_by_text("Generated").wait_for()
    assert cached.get_by_test_id("reply-text").inner_text() == fresh.get_by_test_id("reply-text").inner_text()
    assert "age" in cached.locator(".headers").inner_text()
    with httpx.Client(base_url=served.url) as client:
        answers = client.get("/dashboard/data").json()["totals"]["answers"]
    assert answers == {"exact": 1, "miss": 2}


def test_a_base_model_is_asked_for_a_completion(serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(chat=False).url, "playground")
    with page.page.expect_request("**/v1/completions"):
        page.ask("The sky is")
    assert page.page.get_by_label("System prompt").count() == 0


def test_stop_cancels_the_generation(serve: Serve, open_page: OpenPage) -> None:
    served = serve()
    served.stack.backend.controls.step_seconds = 0.2
    page = open_page(served.url, "playground")
    page.page.get_by_label("Prompt", exact=True).fill(QUESTION)
    page.page.get_by_role("button", name="Send").click()
    page.page.get_by_text("the answer arrives").wait_for(state="attached")
    page.page.get_by_role("button", name="Stop").click()
    page.page.locator(".sent .badge").get_by_text("Generated").wait_for()
    assert plain(page.page.locator(".reply [role=status]").first.text_content()) == "Answer: stopped."
    page.turn_to("Requests")
    page.region("Recent requests").first.get_by_text("cancelled").first.wait_for()
    assert served.stack.backend.cancelled


def test_a_refusal_is_said_in_the_servers_words(serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve().url, "playground")
    page.expected = "400"
    page.page.get_by_label("Max tokens").fill("999999")
    page.ask(QUESTION)
    page.region("Answer").last.get_by_text("context").first.wait_for()


def test_what_was_typed_survives_a_look_at_another_page(serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve().url, "playground")
    page.page.get_by_label("Prompt", exact=True).fill("half a thought")
    page.turn_to("Overview")
    page.turn_to("Playground")
    assert page.page.get_by_label("Prompt", exact=True).input_value() == "half a thought"
