"""A newcomer: `ferry run`, the real model, ten prompts from the playground. Hits, batches and latencies on
the page are those of /metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.browser.support import Dashboard, plain, samples, shown, totals

OpenPage = Callable[..., Dashboard]
PROMPTS = (
    *("What is the capital of France?", "What is the capital of France?", "What is a ferry?"),
    *("What is the capital of Spain?", "What is a ferry?", "Name a river in Germany."),
    *(
        "What is the capital of France?",
        "Name a river in Germany.",
        "How deep is the sea?",
        "What is a ferry?",
    ),
)
NAMES = {"exact": "Exact hit", "semantic": "Similar question", "coalesced": "Shared generation"}
ALL_NAMES = {**NAMES, "miss": "Generated", "bypass": "Not cacheable"}


@pytest.mark.timeout(600)
def test_ten_prompts_read_on_the_page_as_in_the_metrics(
    chromium: Any,
    ferry_server: Callable[..., Any],
    open_page: OpenPage,
    picture: Callable[[Dashboard, str], None],
) -> None:
    server = ferry_server()
    server.wait_ready()
    assert f"{server.url}/dashboard" in server.output
    page = open_page(server.url, "playground")
    page.page.get_by_label("Max tokens").fill("16")
    sent = [plain(page.ask(prompt).locator(".badge").inner_text()) for prompt in PROMPTS]
    assert len(sent) == 10
    picture(page, "ten-prompts-playground")

    page.turn_to("Overview")
    page.region("Answers by tier").get_by_text("Exact hit").wait_for()
    # Until the document has come that knows all ten: an answer's source is counted when the engine or the
    # cache ends it, its latency when it is sent.
    page.until(
        lambda: (
            sum(page.parts("Answers by tier").values()) == 10
            and page.stat("Latency", "of the latest") == "10"
        )
    )
    with httpx.Client(base_url=server.url) as client:
        scraped, summary = samples(client), totals(client)
    _hits(page, sent, scraped, summary)
    _batches(page, scraped, summary)
    _latencies(page, scraped, summary)
    picture(page, "ten-prompts-overview")


def _hits(page: Dashboard, sent: list[str], scraped: dict[str, float], summary: dict[str, Any]) -> None:
    tiers = page.parts("Answers by tier")
    assert {name: count for name, count in tiers.items() if count} == Counter(sent)
    for outcome, name in ALL_NAMES.items():
        assert tiers[name] == scraped.get(f"ferry_cache_answers_total/{outcome}", 0)
    assert sum(tiers[name] for name in NAMES.values()) == summary["cache_hits"] >= 5
    rate = plain(page.page.get_by_test_id("hit-rate").inner_text()).splitlines()[0]
    assert rate == f"{summary['cache_hit_rate'] * 100:.0f} %"
    saved = page.parts("Tokens saved by the cache")
    for outcome, name in NAMES.items():
        assert saved[name] == scraped.get(f"ferry_cache_saved_tokens_total/{outcome}", 0)
    assert saved["Generated"] == scraped["ferry_generation_tokens_total/anonymous"]


def _batches(page: Dashboard, scraped: dict[str, float], summary: dict[str, Any]) -> None:
    steps = [int(row[1].replace(",", "")) for row in page.table("Batch sizes")]
    assert sum(steps) == scraped["ferry_batch_size_count"]
    assert steps[0] == scraped["ferry_batch_size_bucket/1.0"]
    mean = plain(page.page.get_by_test_id("mean-batch").inner_text())
    assert mean.startswith(f"{summary['avg_batch_size']:.2f}")


def _latencies(page: Dashboard, scraped: dict[str, float], summary: dict[str, Any]) -> None:
    for name in ("p50", "p95", "p99"):
        assert page.stat("Latency", name) == shown(summary[f"{name}_latency_ms"])
    assert page.stat("Latency", "of the latest") == "10"
    assert scraped["ferry_e2e_request_latency_seconds_count"] == summary["window"] == 10
    first = page.stat("Time to first token", "of the latest")
    assert int(first) == scraped["ferry_time_to_first_token_seconds_count"]
