from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

SERVER = Path(__file__).with_name("server.py")


@dataclass
class Server:
    process: asyncio.subprocess.Process
    port: int
    client: httpx.AsyncClient
    streams: list[asyncio.Task[Ended]] = field(default_factory=list)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def exit_code(self, within: float = 30.0) -> int:
        return await asyncio.wait_for(self.process.wait(), within)

    async def complete(self, **fields: Any) -> httpx.Response:
        body = {"model": "tiny", "prompt": "The sky", "max_tokens": 5, "ignore_eos": True, **fields}
        return await self.client.post("/v1/completions", json=body)

    async def open_streams(self, count: int, **fields: Any) -> None:
        """Returns when every one of them has been answered with a status."""
        opened = [asyncio.Event() for _ in range(count)]
        for event in opened:
            self.streams.append(asyncio.create_task(read_stream(self.client, event, fields)))
        await asyncio.gather(*(event.wait() for event in opened))

    async def ends(self) -> list[Ended]:
        return await asyncio.gather(*self.streams)

    async def metric(self, name: str, **labels: str) -> float:
        text = (await self.client.get("/metrics", headers={"accept": "text/plain"})).text
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        total = 0.0
        for line in text.splitlines():
            match = re.fullmatch(rf"ferry_{name}(?:{{(.*)}})? (\S+)", line)
            if match and wanted <= set((match[1] or "").split(",")):
                total += float(match[2])
        return total


@dataclass(frozen=True)
class Ended:
    """How a stream ended for its client."""

    status: int
    done: bool
    error: dict[str, Any] | None
    finish_reason: str | None
    cut: bool  # the connection ended in the middle


async def read_stream(client: httpx.AsyncClient, opened: asyncio.Event, fields: dict[str, Any]) -> Ended:
    body = {"model": "tiny", "prompt": "The sky", "ignore_eos": True, "stream": True, **fields}
    status, done, error, reason = 0, False, None, None
    try:
        async with client.stream("POST", "/v1/completions", json=body) as response:
            status = response.status_code
            opened.set()
            async for line in response.aiter_lines():
                data = line.removeprefix("data: ")
                if data == "[DONE]":
                    done = True
                elif data:
                    event = json.loads(data)
                    error = event.get("error", error)
                    for choice in event.get("choices", ()):
                        reason = choice["finish_reason"] or reason
    except httpx.HTTPError:
        return Ended(status, done, error, reason, cut=True)
    finally:
        opened.set()
    return Ended(status, done, error, reason, cut=False)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared directory with a random Llama whose tokens are bytes."""
    import tokenizers
    import torch
    from tokenizers import decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM

    directory = tmp_path_factory.mktemp("tiny")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocab={text: i for i, text in enumerate(alphabet)}, merges=[])
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(directory / "tokenizer.json"))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1100,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=8192,
        initializer_range=0.4,  # sharp enough that tokens differ from step to step
    )
    LlamaForCausalLM(config).save_pretrained(directory)
    return directory


StartServer = Callable[..., Awaitable[Server]]


@pytest.fixture
async def start_server() -> AsyncIterator[StartServer]:
    """``await start_server(slots=…, step=…, drain=…, queue=…)``; killed at the end if it still runs."""
    servers: list[Server] = []

    async def start(**options: Any) -> Server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(SERVER), json.dumps(options), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        port = int(await asyncio.wait_for(process.stdout.readline(), 60))
        limits = httpx.Limits(max_connections=500, max_keepalive_connections=0)
        client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, limits=limits)
        servers.append(Server(process, port, client))
        return servers[-1]

    yield start
    for server in servers:
        for stream in server.streams:
            stream.cancel()
        await asyncio.gather(*server.streams, return_exceptions=True)
        await server.client.aclose()
        if server.process.returncode is None:
            server.process.kill()
        await server.process.wait()
