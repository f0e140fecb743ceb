"""Cache hits of a served model over loopback, on one kept connection: idle, and while streams decode."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx

from bench.load.warming import embedder_loaded
from bench.report import Report
from bench.server import serve
from bench.stats import quantile

MANIFEST = Path(__file__).parent / "manifests" / "cache.yaml"
HITS = 1000
STREAMS = 8
FIRST, REWORDED = "What is the capital of France?", "What's the capital of France?"


class Connection:
    """One kept HTTP/1.1 connection; a client library would cost more than what is measured."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, question: str, max_tokens: int = 24) -> tuple[float, str]:
        """Seconds, and where the answer came from."""
        body = json.dumps(_chat(question, max_tokens)).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: ferry\r\ncontent-type: application/json\r\n"
        started = time.perf_counter()
        self._writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        headers = dict(line.split(": ", 1) for line in answer.split("\r\n")[1:] if line)
        await self._reader.readexactly(int(headers["content-length"]))
        return time.perf_counter() - started, headers["x-ferry-cache"]


def _chat(question: str, max_tokens: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": question}]
    return {"model": "smollm2", "messages": messages, "temperature": 0, "max_tokens": max_tokens}


def measure(report: Report) -> None:
    with serve(MANIFEST) as server:
        asyncio.run(_measure(report, server.url))
        report.fact("resident memory, MB", {k: round(v) for k, v in server.resident_megabytes().items()})


async def _measure(report: Report, url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    connection = Connection(reader, writer)
    async with httpx.AsyncClient(base_url=url, timeout=300) as client:
        await embedder_loaded(url)
        await connection.ask(FIRST)
        await asyncio.sleep(2)  # the write behind the answer embeds it
        await _report(report, connection, "engine idle")
        streams = [asyncio.create_task(_decode(client, number)) for number in range(STREAMS)]
        await asyncio.sleep(1)
        await _report(report, connection, f"{STREAMS} streams decoding")
        for stream in streams:
            stream.cancel()
        await asyncio.wait(streams)
    writer.close()


async def _decode(client: httpx.AsyncClient, number: int) -> None:
    """Long answers, one after the other, that no tier knows."""
    turn = 0
    while True:
        turn += 1
        body = _chat(f"Tell a long story, number {number}-{turn}.", 400) | {"stream": True}
        async with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            async for _ in stream.aiter_lines():
                pass


async def _report(report: Report, connection: Connection, when: str) -> None:
    exact = [await connection.ask(FIRST) for _ in range(HITS)]
    # Another max_tokens each time, so that the exact tier has none of them; the question is embedded once.
    semantic = [await connection.ask(REWORDED, 100 + number) for number in range(HITS // 5)]
    for name, answers in (("exact", exact), ("semantic", semantic)):
        seconds = [took for took, outcome in answers if outcome == name]
        share = f"{len(seconds)} of {len(answers)} were hits"
        if seconds:
            p50, p99 = quantile(seconds, 0.5) * 1000, quantile(seconds, 0.99) * 1000
            share = f"p50 {p50:.2f}, p99 {p99:.2f} ({share})"
        report.fact(f"{name} hit end to end, {when}, ms", share)
