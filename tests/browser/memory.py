"""What an open page holds in memory, by what it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

MB = 1024 * 1024
_THE_PAGES = (
    "object",
    "closure",
    "string",
    "concatenated string",
    "sliced string",
    "number",
    "symbol",
    "regexp",
)


@dataclass(frozen=True)
class PageMemory:
    """Bytes, after collecting garbage.

    kinds: the whole heap by V8's types of node. What the page's scripts keep is in `objects`. Beside it there
        are arrays, also those behind every Map and Set, which grow and shrink by doubling; code that V8
        compiles for ever hotter functions (measured: 1 MB in the first hour); and what the browser keeps for
        a debugger, such as a record of every request.
    total: the whole heap as the page's process counts it.
    nodes: DOM nodes, a count.
    """

    kinds: dict[str, int]
    total: int
    nodes: int

    @property
    def objects(self) -> int:
        return sum(self.kinds.get(kind, 0) for kind in _THE_PAGES)


def page_memory(session: Any) -> PageMemory:
    """Of the page to which the DevTools session belongs."""
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    total = int(session.send("Runtime.getHeapUsage")["usedSize"])
    nodes = int(session.send("Memory.getDOMCounters")["nodes"])
    return PageMemory(_by_kind(_snapshot(session)), total, nodes)


def _by_kind(snapshot: dict[str, Any]) -> dict[str, int]:
    """From a heap snapshot as V8 writes it."""
    meta = snapshot["snapshot"]["meta"]
    fields, types = meta["node_fields"], meta["node_types"][0]
    kind, size, width = fields.index("type"), fields.index("self_size"), len(fields)
    values = snapshot["nodes"]
    sizes: dict[str, int] = {}
    for at in range(0, len(values), width):
        name = types[values[at + kind]]
        sizes[name] = sizes.get(name, 0) + values[at + size]
    return sizes


def _snapshot(session: Any) -> dict[str, Any]:
    chunks: list[str] = []

    def keep(event: dict[str, str]) -> None:
        chunks.append(event["chunk"])

    session.on("HeapProfiler.addHeapSnapshotChunk", keep)
    session.send("HeapProfiler.takeHeapSnapshot", {"reportProgress": False})
    session.remove_listener("HeapProfiler.addHeapSnapshotChunk", keep)
    read: dict[str, Any] = json.loads("".join(chunks))
    return read
