"""Asks runtime pods how many requests wait and run, by the metrics that they serve anyway."""

from __future__ import annotations

import asyncio
import ipaddress
import re

import aiohttp

from ferry_api.pod_layout import HTTP_PORT
from ferry_operator.scaling.decide import Load

_TIMEOUT = 2.0  # seconds for one pod's answer
_MOST = 4 * 1024 * 1024  # bytes that are read of one
_SAMPLE = re.compile(rb"^ferry_num_requests_(waiting|running)(?:\{[^}]*\})? ([0-9.e+]+)\s*$", re.MULTILINE)


def load_of(exposition: bytes) -> Load | None:
    """The load in an answer in Prometheus' text format; None if it does not tell."""
    found = {name: float(value) for name, value in _SAMPLE.findall(exposition)}
    if len(found) != 2:
        return None
    return Load(waiting=int(found[b"waiting"]), running=int(found[b"running"]))


async def scrape(session: aiohttp.ClientSession, address: str) -> Load | None:
    """One pod's load; None without an answer in time."""
    host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    try:
        async with (
            asyncio.timeout(_TIMEOUT),
            session.get(f"http://{host}:{HTTP_PORT}/metrics", headers={"Accept": "text/plain"}) as answer,
        ):
            return load_of(await answer.content.read(_MOST)) if answer.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, OSError):
        return None
