"""The peer "engine A": a single-node engine of FastAPI, a Redis-like store and transformers' generate().

    python -m bench.load.engine_a MODEL_DIRECTORY PORT THREADS [off-loop]

A small reimplementation of a policy that is common in public projects, from its description alone:

* `POST /generate` {prompt, max_new_tokens}, `GET /health`, `GET /metrics`, `POST /clear-cache`;
* a batch leaves with 8 requests, or when none has come for 50 ms (the window begins anew with each one),
  and runs as one padded `generate()` on the event loop, with the first request's max_new_tokens;
* before it a semantic cache: all-MiniLM-L6-v2, cosine of at least 0.80, kept for an hour; a miss is
  embedded again when it is stored, and equal questions that are under way at once all run.

Where the description leaves a choice, the one that is better for the peer: the same weights, 32-bit floats,
threads, chat template, greedy decoding and HTTP server as Ferry has; vectors are compared in this
process instead of over the network; answers lie in the same kind of store on the same kind of socket;
tokens are counted without padding.

`off-loop` mends its greatest fault: generate() runs in a thread, so that requests are taken in, looked up and
queued meanwhile. It tells how much of a difference is due to that fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

MOST_AT_ONCE = 8
WAIT_SECONDS = 0.05
THRESHOLD = 0.80
TTL_SECONDS = 3600
MOST_PROMPT_TOKENS = 512
_START_SECONDS = 120.0


@dataclass(slots=True)
class Waiting:
    prompt: str
    max_new_tokens: int
    answer: asyncio.Future[dict[str, Any]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Model:
    """transformers' `generate` on a padded batch, greedy."""

    def __init__(self, directory: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._torch = torch
        self._model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
        self._tokenizer = AutoTokenizer.from_pretrained(directory, padding_side="left")

    def generate(self, prompts: list[str], max_new_tokens: int) -> list[dict[str, Any]]:
        tokenizer = self._tokenizer
        if tokenizer.chat_template:
            chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
            prompts = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
        inputs = tokenizer(
            prompts, return_tensors="pt", padding=True, truncation=True, max_length=MOST_PROMPT_TOKENS
        )
        with self._torch.inference_mode():
            rows = self._model.generate(
                **inputs, max_new_tokens=max_new_tokens, do_sample=False, pad_token_id=tokenizer.pad_token_id
            )
        width = inputs["input_ids"].shape[1]
        lengths = inputs["attention_mask"].sum(dim=1).tolist()
        return [self._answer(row[width:].tolist(), length) for row, length in zip(rows, lengths, strict=True)]

    def _answer(self, tokens: list[int], input_tokens: int) -> dict[str, Any]:
        end = self._tokenizer.eos_token_id
        made = tokens[: tokens.index(end) + 1] if end in tokens else tokens
        text = self._tokenizer.decode(made, skip_special_tokens=True)
        return {"generated_text": text, "input_tokens": input_tokens, "output_tokens": len(made)}


class Cache:
    """``store`` is a redis client. Vectors of what was stored stay here, in order of storing."""

    def __init__(self, store: Any) -> None:
        import numpy as np
        from sentence_transformers import SentenceTransformer

        from ferry_runtime.embedding.location import embedder_directory

        self._embedder = SentenceTransformer(str(embedder_directory()), device="cpu", local_files_only=True)
        self._store = store
        self._np = np
        self.clear()

    def clear(self) -> None:
        self._vectors = self._np.empty((0, 384), dtype=self._np.float32)
        self._keys: list[str] = []

    async def find(self, prompt: str) -> dict[str, Any] | None:
        vector = self._embed(prompt)
        if not self._keys:
            return None
        cosines = self._vectors @ vector
        best = int(cosines.argmax())
        if cosines[best] < THRESHOLD:
            return None
        kept = await self._store.get(self._keys[best])
        return None if kept is None else json.loads(kept)

    async def keep(self, prompt: str, answer: dict[str, Any]) -> None:
        key = f"engine-a:{uuid.uuid4().hex}"
        await self._store.set(key, json.dumps(answer), ex=TTL_SECONDS)
        self._vectors = self._np.vstack((self._vectors, self._embed(prompt)))
        self._keys.append(key)

    def _embed(self, prompt: str) -> Any:
        return self._embedder.encode(prompt, normalize_embeddings=True, show_progress_bar=False)


class Batcher:
    def __init__(self, model: Model, *, off_loop: bool) -> None:
        self._model = model
        self._off_loop = off_loop
        self.batches, self.requests = 0, 0
        self._queue: asyncio.Queue[Waiting] = asyncio.Queue()

    async def answer(self, prompt: str, max_new_tokens: int) -> dict[str, Any]:
        waiting = Waiting(prompt, max_new_tokens)
        await self._queue.put(waiting)
        return await waiting.answer

    async def work(self) -> None:
        while True:
            batch = [await self._queue.get()]
            while len(batch) < MOST_AT_ONCE:
                try:
                    async with asyncio.timeout(WAIT_SECONDS):
                        batch.append(await self._queue.get())
                except TimeoutError:
                    break
            self.batches, self.requests = self.batches + 1, self.requests + len(batch)
            work = [one.prompt for one in batch], batch[0].max_new_tokens
            if self._off_loop:
                answers = await asyncio.to_thread(self._model.generate, *work)
            else:
                answers = self._model.generate(*work)
            for one, answer in zip(batch, answers, strict=True):
                if not one.answer.done():
                    one.answer.set_result(answer)


def create_app(directory: str, *, off_loop: bool = False) -> Any:
    from fastapi import FastAPI
    from redis.asyncio import Redis

    from ferry_runtime.store.embedded import EmbeddedStore

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        store = await EmbeddedStore.start()
        client = Redis(unix_socket_path=store.address.path, protocol=2)
        app.state.cache, app.state.batcher = Cache(client), Batcher(Model(directory), off_loop=off_loop)
        worker = asyncio.create_task(app.state.batcher.work())
        try:
            yield
        finally:
            worker.cancel()
            await client.aclose()
            await store.stop()

    app = FastAPI(lifespan=lifespan)

    @app.post("/generate")
    async def generate(body: dict[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        prompt, cache = str(body["prompt"]), app.state.cache
        answer = await cache.find(prompt)
        cached = answer is not None
        if answer is None:
            answer = await app.state.batcher.answer(prompt, int(body.get("max_new_tokens") or 50))
            await cache.keep(prompt, answer)
        seconds = time.perf_counter() - started
        return {
            "request_id": uuid.uuid4().hex,
            "prompt": prompt,
            **answer,
            "latency_ms": 1000 * seconds,
            "cached": cached,
            "tokens_per_second": answer["output_tokens"] / seconds,
        }

    @app.post("/clear-cache")
    async def clear_cache() -> dict[str, bool]:
        app.state.cache.clear()
        return {"cleared": True}

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "healthy"}

    @app.get("/metrics")
    async def metrics() -> dict[str, float]:
        batcher = app.state.batcher
        return {"avg_batch_size": batcher.requests / max(1, batcher.batches)}

    return app


@contextlib.contextmanager
def engine_a(directory: Path, port: int, threads: int, *, off_loop: bool = False) -> Iterator[str]:
    """The peer in a process of its own; gives its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.load.engine_a", str(directory), str(port), str(threads)]
        + ["off-loop"] * off_loop,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{url}/health", timeout=2).status_code == 200:
                    break
            time.sleep(0.1)
        else:
            raise RuntimeError("engine A did not start")
        yield url
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _main(directory: str, port: str, threads: str, *options: str) -> None:
    import torch
    import uvicorn

    torch.set_num_threads(int(threads))
    app = create_app(directory, off_loop="off-loop" in options)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error", access_log=False)


if __name__ == "__main__":
    _main(*sys.argv[1:])
