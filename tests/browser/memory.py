"""What an open page holds in memory, by what it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

MB = 1024 * 1024
_NOT_THE_PAGES = ("code", "native", "hidden", "synthetic", "object shape")


@dataclass(frozen=True)
class PageMemory:
    """Bytes, after collecting garbage.

    objects: what the page's scripts keep: objects, arrays, closures, strings, numbers.
    total: the whole heap: with it, code that V8 compiles for ever hotter functions (measured: for the first
        hour or so, 1 MB) and what the browser keeps for a debugger, such as a record of every request.
    nodes: DOM nodes, a count.
    """

    objects: int
    total: int
    nodes: int


def page_memory(session: Any) -> PageMemory:
    """Of the page to which the DevTools session belongs."""
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    total = int(session.send("Runtime.getHeapUsage")["usedSize"])
    nodes = int(session.send("Memory.getDOMCounters")["nodes"])
    return PageMemory(sum(objects(_snapshot(session)).values()), total, nodes)


def objects(snapshot: dict[str, Any]) -> dict[str, int]:
    """Bytes of the page's own by type of node, from a heap snapshot as V8 writes it."""
    meta = snapshot["snapshot"]["meta"]
    fields, types = meta["node_fields"], meta["node_types"][0]
    kind, size, width = fields.index("type"), fields.index("self_size"), len(fields)
    values = snapshot["nodes"]
    sizes: dict[str, int] = {}
    for at in range(0, len(values), width):
        name = types[values[at + kind]]
        if name not in _NOT_THE_PAGES:
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
