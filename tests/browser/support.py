"""The dashboard as a test drives it, and a proxy to put in front of it."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.conftest import ROOT
from tests.integration.runtime.http.support import listening

SCREENSHOTS = ROOT / "build" / "screenshots"
_HOP = {"connection", "transfer-encoding", "keep-alive", "host", "content-length"}


@dataclass
class Dashboard:
    """``page`` is playwright's. ``complaints`` are what the console and the page reported, ``elsewhere``
    the requests that went to another origin than ``url``'s."""

    page: Any
    url: str
    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    # Refusals that a test provokes are reported by the console too.
    expected: str = "(?!)"

    def __post_init__(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in {"error", "warning"} and not re.search(self.expected, message.text):
            self.complaints.append(message.text)

    def _asked(self, request: Any) -> None:
        origin = "/".join(self.url.split("/")[:3])
        if not request.url.startswith((origin, "data:")):
            self.elsewhere.append(request.url)

    def go(self, page: str = "") -> None:
        self.page.goto(f"{self.url}/dashboard{f'#/{page}' if page else ''}")

    def answers(self, count: int) -> None:
        """Let so many answers reach a page whose own clock was installed: it asks every two seconds."""
        for _ in range(count):
            with self.page.expect_response("**/dashboard/data"):
                self.page.clock.run_for(2_000)

    def turn_to(self, title: str) -> None:
        self.page.get_by_role("navigation").get_by_role("link", name=title).click()

    def region(self, name: str) -> Any:
        return self.page.get_by_role("region", name=name, exact=True)

    def table(self, title: str) -> list[list[str]]:
        """The rows of a chart's table, opened if need be."""
        region = self.region(title)
        button = region.get_by_role("button", name="Table")
        if button.get_attribute("aria-pressed") == "false":
            button.click()
        return cells(region.locator("tbody tr"))

    def parts(self, title: str) -> dict[str, int]:
        """The list below a bar of parts: names and their numbers."""
        found = {}
        for line in self.region(title).locator(".segments li").all_inner_texts():
            name, value, *_ = [plain(text) for text in line.splitlines() if text.strip()]
            found[name] = int(re.sub(r"\D", "", value))
        return found

    def stat(self, title: str, label: str) -> str:
        stat = self.region(title).locator(".stat").filter(has_text=label).first
        return plain(stat.locator("dd").inner_text())

    def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        """Playwright's own waiting for an expression needs eval, which the page's policy forbids."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end
            self.page.wait_for_timeout(50)

    def ask(self, prompt: str) -> Any:
        """Send a prompt from the playground; gives its line in the list of what was sent."""
        sent = self.page.locator(".sent li")
        newest = sent.first.inner_text() if sent.count() else ""
        self.page.get_by_label("Prompt", exact=True).fill(prompt)
        self.page.get_by_role("button", name="Send").click()
        self.until(lambda: bool(sent.count()) and sent.first.inner_text() != newest)
        return sent.first


def cells(rows: Any) -> list[list[str]]:
    """The texts of table rows, all at one moment: read row by row, a table that gains a line at its top
    meanwhile shows one of them twice."""
    texts = rows.evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.innerText))"
    )
    return [[plain(text) for text in row] for row in texts]


def plain(text: str) -> str:
    return text.replace("\u00a0", " ").strip()


def shown(milliseconds: float) -> str:
    """A latency as the page writes it."""
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1_000:.{2 if milliseconds < 10_000 else 1}f} s"


def ask(client: httpx.Client, *prompts: str, tokens: int = 64) -> None:
    for prompt in prompts:
        answer = client.post("/generate", json={"prompt": prompt, "max_new_tokens": tokens})
        assert answer.status_code == 200


def indexed(client: httpx.Client, count: int, seconds: float = 20.0) -> None:
    """Until so many questions can be found by similar ones."""
    end = time.monotonic() + seconds
    while client.get("/cache/stats").json()["indexed"] != count:
        assert time.monotonic() < end
        time.sleep(0.02)


def samples(client: httpx.Client) -> dict[str, float]:
    """Prometheus samples as ``name/label values``."""
    return {
        "/".join((sample.name, *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
    }


def totals(client: httpx.Client) -> dict[str, Any]:
    answer: dict[str, Any] = client.get("/metrics", headers={"accept": "application/json"}).json()
    return answer


def proxy(
    targets: Sequence[str], *, prefix: str = "", keep: bool = False
) -> Callable[[], AbstractAsyncContextManager[str]]:
    """A reverse proxy that serves ``targets`` in turn under ``prefix``, which it keeps or strips; gives
    the address under which Ferry is found."""

    @asynccontextmanager
    async def run() -> AsyncIterator[str]:
        async with (
            httpx.AsyncClient(timeout=60) as client,
            listening(_forward(client, targets, prefix, keep=keep)) as port,
        ):
            yield f"http://127.0.0.1:{port}{prefix}"

    return run


def _forward(client: httpx.AsyncClient, targets: Sequence[str], prefix: str, *, keep: bool) -> ASGIApp:
    turn = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal turn
        path: str = scope["path"]
        if not path.startswith(f"{prefix}/"):
            await _respond(send, 404, b"not this proxy's")
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        target, turn = targets[turn % len(targets)], turn + 1
        request = client.build_request(
            scope["method"],
            target + (path if keep else path.removeprefix(prefix)),
            headers=[(name, value) for name, value in scope["headers"] if name.decode() not in _HOP],
            content=body,
        )
        response = await client.send(request, stream=True)
        headers = [(name, value) for name, value in response.headers.raw if name.lower().decode() not in _HOP]
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        async for chunk in response.aiter_raw():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        await response.aclose()

    return app


async def _respond(send: Send, status: int, body: bytes) -> None:
    await send(
        {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]}
    )
    await send({"type": "http.response.body", "body": body})
