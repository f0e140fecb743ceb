"""Each panel beside what the server's metrics say of the same traffic."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from tests.browser.support import Dashboard, ask, cells, indexed, plain, samples, shown, totals
from tests.integration.runtime.http.support import Served

from ferry_runtime.engine.fake import FakeBackend

OpenPage = Callable[..., Dashboard]
Serve = Callable[..., Served]


@pytest.fixture
def served(serve: Serve) -> Served:
    """After known traffic: two generated, three exact hits, one similar question, one refused one, one
    that the cache may not answer and one that failed."""
    served = serve()
    served.stack.backend.controls.fails = lambda request: request.sampling.max_tokens == 13
    with httpx.Client(base_url=served.url, timeout=60) as client:
        ask(client, *["How do I reset my password?"] * 3, *["How do I enable the alarm?"] * 2)
        indexed(client, 2)
        ask(client, "How can I reset my password?", "How do I disable the alarm?")
        client.post("/generate", json={"prompt": "x", "max_new_tokens": 4, "temperature": 1.0})
        assert client.post("/generate", json={"prompt": "x", "max_new_tokens": 13}).status_code == 500
    return served


def test_answers_by_tier_and_saved_tokens(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.url)
    page.region("Answers by tier").get_by_text("Exact hit").wait_for()
    with httpx.Client(base_url=served.url) as client:
        scraped, summary = samples(client), totals(client)
    tiers = page.parts("Answers by tier")
    assert tiers == {
        "Exact hit": 3,
        "Similar question": 1,
        "Shared generation": 0,
        "Generated": 3,
        "Not cacheable": 1,
    }
    for name, outcome in (("Exact hit", "exact"), ("Similar question", "semantic"), ("Generated", "miss")):
        assert tiers[name] == scraped[f"ferry_cache_answers_total/{outcome}"]
    assert plain(page.page.get_by_test_id("hit-rate").inner_text()).startswith("57 %")
    assert round(summary["cache_hit_rate"] * 100) == 57
    saved = page.parts("Tokens saved by the cache")
    assert saved["Exact hit"] == scraped["ferry_cache_saved_tokens_total/exact"] > 0
    assert saved["Similar question"] == scraped["ferry_cache_saved_tokens_total/semantic"] > 0
    assert saved["Generated"] == scraped["ferry_generation_tokens_total/anonymous"]


def test_batch_sizes(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.url)
    rows = page.table("Batch sizes")
    with httpx.Client(base_url=served.url) as client:
        scraped, summary = samples(client), totals(client)
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5\u20136", "7\u20138"]
    assert int(rows[0][1]) == scraped["ferry_batch_size_bucket/1.0"] == scraped["ferry_batch_size_count"] > 0
    assert plain(page.page.get_by_test_id("mean-batch").inner_text()).startswith(
        f"{summary['avg_batch_size']:.2f}"
    )


def test_latencies(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.url)
    page.region("Latency").get_by_text("of the latest").wait_for()
    with httpx.Client(base_url=served.url) as client:
        scraped, summary = samples(client), totals(client)
    for name in ("p50", "p95", "p99"):
        assert page.stat("Latency", name) == shown(summary[f"{name}_latency_ms"])
    assert page.stat("Latency", "of the latest") == str(summary["window"]) == "8"
    first = int(page.stat("Time to first token", "of the latest"))
    assert first == scraped["ferry_time_to_first_token_seconds_count"] == 4


def test_charts_over_time_add_up_to_the_traffic(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.url)

    def sums() -> list[float]:
        rows = page.table("Throughput")
        return [round(sum(float(row[column]) for row in rows) * 2, 1) for column in range(1, 8)]

    # Exact, similar, shared, generated, not cacheable, refused, failed; a bucket shows when it is whole.
    expected = [3, 1, 0, 3, 1, 0, 1]
    page.until(lambda: sums() == expected)
    with httpx.Client(base_url=served.url) as client:
        generated = samples(client)["ferry_generation_tokens_total/anonymous"]
    assert sum(float(row[1]) for row in page.table("Generated tokens")) * 2 == pytest.approx(generated, abs=1)


def test_the_feed_is_newest_first_with_outcome_and_tokens(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.url, "requests")
    rows = page.region("Recent requests").first.locator("tbody tr")
    rows.first.wait_for()
    texts = cells(rows)
    assert len(texts) == 9
    assert [row[2] for row in texts][:3] == ["request failed", "Not cacheable", "Generated"]
    assert texts[-1][1] == "How do I reset my password?"
    assert texts[-2][2] == "Exact hit"
    assert plain(page.page.locator(".stats.framed").inner_text()).split("\n")[:2] == ["answered", "8"]


def test_queue_and_slots_show_what_runs_and_waits(serve: Serve, open_page: OpenPage) -> None:
    served = serve(backend=lambda: FakeBackend(slots=2, vocab_size=1100, context_length=1024))
    served.stack.backend.controls.hanging = True
    page = open_page(served.url)
    with httpx.Client(base_url=served.url) as client:
        page.page.evaluate(
            """url => { for (let i = 0; i < 5; i++) fetch(url + '/generate', {method: 'POST',
              headers: {'content-type': 'application/json'},
              body: JSON.stringify({prompt: 'q' + i, max_new_tokens: 4})}) }""",
            served.url,
        )
        page.region("Queue and slots").get_by_text("3 / 256").wait_for()
        assert samples(client)["ferry_num_requests_waiting"] == 3
    served.stack.backend.controls.hanging = False
    page.region("Queue and slots").get_by_text("0 / 256").wait_for()
    peaks = [int(row[2]) for row in page.table("Queue and slots")]
    assert max(peaks) >= 3


def test_the_architecture_page_has_the_same_numbers(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.url, "architecture")
    stages = page.page.get_by_role("list", name="A request's way").locator("> li")
    stages.first.wait_for()
    texts = [plain(text) for text in stages.all_inner_texts()]
    assert len(texts) == 6
    assert "3 answered" in texts[1]
    assert "1 answered, 1 near misses" in texts[3]
    assert "4 generated" in texts[5]
    assert "at least 0.70" in texts[3]
