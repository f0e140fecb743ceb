"""A bounded load test from inside the server: browsers open six connections at most, too few to fill a
batch. Its requests take the whole way of a client's, from the guard to the engine, except the socket."""

from __future__ import annotations

import asyncio
import secrets
import time
import weakref
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import httpx
import msgspec
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ferry_runtime.api.dashboard.scenarios import Pattern, Question, scenario
from ferry_runtime.api.disconnect import while_connected
from ferry_runtime.api.errors import Refusal
from ferry_runtime.api.schemas.base import Body, Integer, Text
from ferry_runtime.errors import InvalidRequest
from ferry_runtime.generation import HITS
from ferry_runtime.windows import Spread, Window

MOST_REQUESTS = 500
MOST_AT_ONCE = 64
MOST_TOKENS = 128
_SECONDS = 120.0  # for the whole test
_REPORT_SECONDS = 0.25


class LoadBody(Body):
    requests: Annotated[Integer, Field(ge=1, le=MOST_REQUESTS)] = 50
    concurrency: Annotated[Integer, Field(ge=1, le=MOST_AT_ONCE)] = 8
    pattern: Text = Pattern.REPEATED.value  # unique, repeated or cached
    max_new_tokens: Annotated[Integer, Field(ge=1, le=MOST_TOKENS)] = 16
    seed: Annotated[Integer, Field(ge=0, le=2**31)] | None = None


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One request: seconds from the test's start to its end, its latency in milliseconds, and where
    its answer came from, or the code of its error."""

    at: float
    latency_ms: float
    result: str


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the report; ``over`` in the last one. ``stopped`` tells that the time was up."""

    over: bool
    stopped: bool
    seed: int
    asked: int
    ended: int
    seconds: float
    results: dict[str, int]
    output_tokens: int
    all: Spread
    hits: Spread
    generated: Spread
    samples: list[Sample]  # those since the last line


class LoadTests:
    """One at a time in a replica."""

    def __init__(self) -> None:
        self._latest: weakref.ref[LoadLines] | None = None

    def begin(self, request: Request, body: LoadBody) -> LoadLines:
        """Raises Refusal while another one runs, InvalidRequest for a pattern that is none."""
        if body.pattern not in set(Pattern):
            raise InvalidRequest("pattern must be unique, repeated or cached.", "pattern")
        latest = self._latest() if self._latest is not None else None
        if latest is not None and not latest.over:
            raise Refusal(409, "A load test is running in this replica.", code="load_test_running")
        lines = LoadLines(LoadTest(request.app, body, request.headers.get("authorization")))
        self._latest = weakref.ref(lines)
        return lines


class LoadLines(Response):
    """The report while it is made, one JSON object a line. The test ends with its reader."""

    def __init__(self, test: LoadTest) -> None:
        super().__init__(None, 200, {"x-accel-buffering": "no"}, media_type="application/x-ndjson")
        del self.headers["content-length"]
        self._test = test
        self.over = False

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(receive, self._write(send))
        finally:
            self.over = True

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self._test.reports()) as reports:
            async for report in reports:
                line = msgspec.json.encode(report) + b"\n"
                await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class LoadTest:
    """``app`` is asked with the authorization of whoever started the test."""

    def __init__(self, app: ASGIApp, body: LoadBody, authorization: str | None) -> None:
        self._app = app
        self._body = body
        self._headers = {"authorization": authorization} if authorization else {}
        self._seed = secrets.randbelow(2**31) if body.seed is None else body.seed
        self._scenario = scenario(Pattern(body.pattern), body.requests, self._seed)
        self._questions = iter(self._scenario.questions)
        self._results: Counter[str] = Counter()
        self._windows = {name: Window(MOST_REQUESTS) for name in ("all", "hits", "generated")}
        self._samples: list[Sample] = []
        self._tokens = 0
        self._began = time.monotonic()

    async def reports(self) -> AsyncGenerator[LoadReport, None]:
        """Lines as the test goes on; the last one is ``over``. Closing it ends the test."""
        work = asyncio.ensure_future(self._run())
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=_REPORT_SECONDS)
                if not work.done():
                    yield self._report()
            yield self._report(over=True, stopped=work.result())
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _run(self) -> bool:
        """Whether the time was up before the questions were."""
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://ferry", timeout=None) as client:  # noqa: S113 - bounded below
            try:
                async with asyncio.timeout(_SECONDS), asyncio.TaskGroup() as clients:
                    await self._prime(client)
                    self._began = time.monotonic()
                    for _ in range(min(self._body.concurrency, self._body.requests)):
                        clients.create_task(self._ask_on(client))
            except TimeoutError:
                return True
        return False

    async def _prime(self, client: httpx.AsyncClient) -> None:
        for question in self._scenario.first:
            await self._ask(client, question)

    async def _ask_on(self, client: httpx.AsyncClient) -> None:
        for question in self._questions:
            began = time.monotonic()
            response = await self._ask(client, question)
            self._count(response, (time.monotonic() - began) * 1000)

    async def _ask(self, client: httpx.AsyncClient, question: Question) -> httpx.Response:
        body = {"prompt": question.prompt, "max_new_tokens": self._body.max_new_tokens}
        headers = {"cache-control": question.cache_control} if question.cache_control else {}
        return await client.post("/generate", json=body, headers={**self._headers, **headers})

    def _count(self, response: httpx.Response, latency_ms: float) -> None:
        answer = response.json()
        if response.status_code == 200:
            result = response.headers["x-ferry-cache"]
            self._tokens += answer["output_tokens"]
            self._windows["all"].add(latency_ms)
            self._windows["hits" if result in HITS else "generated"].add(latency_ms)
        else:
            result = answer["error"]["code"] or answer["error"]["type"]
        self._results[result] += 1
        self._samples.append(Sample(round(time.monotonic() - self._began, 3), round(latency_ms, 2), result))

    def _report(self, *, over: bool = False, stopped: bool = False) -> LoadReport:
        samples, self._samples = self._samples, []
        return LoadReport(
            over=over,
            stopped=stopped,
            seed=self._seed,
            asked=self._body.requests,
            ended=self._results.total(),
            seconds=round(time.monotonic() - self._began, 3),
            results=dict(self._results),
            output_tokens=self._tokens,
            all=self._windows["all"].spread(),
            hits=self._windows["hits"].spread(),
            generated=self._windows["generated"].spread(),
            samples=samples,
        )
