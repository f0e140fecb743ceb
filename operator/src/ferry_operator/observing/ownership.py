"""Which fields of a live object are ours, and whether they are as planned.

Server-side apply records in `managedFields` who set what. Cutting a live object down to the fields that our
manager applied gives exactly the manifest that we applied last, if nobody has changed it since: so drift, a
removed key and a new plan are one comparison, and what others add is invisible to it.
Format: https://github.com/kubernetes-sigs/structured-merge-diff (fieldpath, serialize-pe).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal, DecimalException
from typing import Any

from ferry_operator.labels import MANAGER

_Json = Any
_DATA = ("f:data", "f:stringData")
_QUANTITY_MAPS = frozenset({"limits", "requests"})
_SUFFIXES = {
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def planned_digest(manifest: Mapping[str, _Json]) -> bytes:
    """Digest of a manifest as it is to be applied."""
    return _digest({key: value for key, value in manifest.items() if key not in {"apiVersion", "kind"}})


def live_digest(live: Mapping[str, _Json], manager: str = MANAGER) -> bytes | None:
    """Digest of what `manager` applied to a live object, as it is now; None if it never applied anything."""
    for entry in live["metadata"].get("managedFields", ()):
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ):
            return _digest(_cut(entry["fieldsV1"], live))
    return None


def data_entries(live: Mapping[str, _Json]) -> frozenset[str] | None:
    """Names of the entries of a Secret's data, read from its metadata; None if that does not tell.

    Every entry was set by some manager, so managedFields name them all, without what they hold.
    """
    managers = [entry.get("fieldsV1") or {} for entry in live["metadata"].get("managedFields", ())]
    if not any(managers):
        return None
    paths = {path for fields in managers for part in _DATA for path in fields.get(part, ())}
    return frozenset(path.removeprefix("f:") for path in paths if path.startswith("f:"))


def _digest(content: _Json) -> bytes:
    content = _canonical(content)
    metadata = content.get("metadata", {})
    # Part of the path, not of the fields: managedFields never lists them.
    for key in ("name", "namespace"):
        metadata.pop(key, None)
    return hashlib.blake2b(
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode(), digest_size=16
    ).digest()


def _cut(fields: Mapping[str, _Json], value: _Json) -> _Json:
    """`value` reduced to the fields of a FieldsV1 set."""
    if not fields:
        return value
    items: list[_Json] = []
    members: dict[str, _Json] = {}
    for path, below in fields.items():
        kind, _, argument = path.partition(":")
        if kind == "f":
            if isinstance(value, dict) and argument in value:
                members[argument] = _cut(below, value[argument])
        elif kind == "k":
            key = json.loads(argument)
            items += [
                (position, _cut(below, item))
                for position, item in enumerate(value or ())
                if all(item.get(name) == wanted for name, wanted in key.items())
            ]
        elif kind == "v":
            wanted = json.loads(argument)
            items += [(position, item) for position, item in enumerate(value or ()) if item == wanted]
    if items or isinstance(value, list):
        return [item for _, item in sorted(items, key=lambda pair: pair[0])]
    return members


def _canonical(value: _Json, within: str = "") -> _Json:
    """A copy in which equal values are spelled alike: no nulls, quantities as numbers."""
    if isinstance(value, dict):  # of JSON; asking for a Mapping takes several times as long
        if within in _QUANTITY_MAPS:
            return {key: _spelled(item) for key, item in value.items()}
        return {key: _canonical(item, key) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return value


def _spelled(text: _Json) -> _Json:
    number = quantity(text) if isinstance(text, str | int | float) else None
    return text if number is None else str(number)


def quantity(text: str | int | float) -> Decimal | None:
    """A Kubernetes quantity as a number, None if it is not one."""
    spelled = str(text)
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if spelled.endswith(suffix):
            number, factor = spelled.removesuffix(suffix), _SUFFIXES[suffix]
            break
    else:
        number, factor = spelled, Decimal(1)
    try:
        return (Decimal(number) * factor).normalize()
    except DecimalException:
        return None
