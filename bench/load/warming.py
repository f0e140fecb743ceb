"""Waiting until a server is what a measurement supposes it to be."""

from __future__ import annotations

import asyncio

import httpx

_EMBEDDER_SECONDS = 120


async def embedder_loaded(url: str) -> None:
    """A service is ready before its semantic cache is: wait for that too.

    Raises RuntimeError when it does not come; a service without a cache is not waited for.
    """
    async with httpx.AsyncClient(base_url=url, timeout=10) as client:
        for _ in range(_EMBEDDER_SECONDS):
            stats = await client.get("/cache/stats")
            if stats.status_code == 404 or stats.json()["semantic"]["enabled"]:
                return
            await asyncio.sleep(1)
    raise RuntimeError(f"the semantic cache was not loaded within {_EMBEDDER_SECONDS} s")
