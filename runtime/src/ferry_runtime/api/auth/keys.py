"""The key table: files of a mounted Secret, one per key id, holding JSON.

``{"sha256": "<hex>", "tenant": "team-a", "admin": false, "priority": {"min": 0, "max": 10}}``.
Only digests are stored, and what is wrong with an entry is said by its name, never by its value.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ferry_runtime.api.auth.principal import MAX_PRIORITY, MIN_PRIORITY, Principal

_BOM = "\ufeff"
_EMPTY_KEY = hashlib.sha256(b"").hexdigest()
_EMPTY_LINE = hashlib.sha256(b"\n").hexdigest()


class BadEntry(ValueError):
    """Says what is wrong with an entry, without its value."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    digest: bytes
    principal: Principal


@dataclass(frozen=True, slots=True)
class KeyTable:
    """A table without keys is closed: nobody is let in. ``problems`` are sentences for the log."""

    keys: tuple[KeyEntry, ...] = ()
    problems: tuple[str, ...] = ()

    def find(self, secret: bytes) -> Principal | None:
        """Compares with every entry in constant time, whichever matches.

        ``echo KEY | sha256sum`` digests the key with its newline: such an entry is found as well.
        """
        offered = (hashlib.sha256(secret).digest(), hashlib.sha256(secret + b"\n").digest())
        found: Principal | None = None
        for entry in self.keys:
            for digest in offered:
                if hmac.compare_digest(entry.digest, digest):
                    found = entry.principal
        return found


def parse_key_table(entries: Mapping[str, bytes]) -> KeyTable:
    """Reads every entry that is right; the others become problems and let nobody in."""
    keys: dict[bytes, str] = {}
    parsed: list[KeyEntry] = []
    problems: list[str] = []
    for name in sorted(entries):
        try:
            entry = _parse(name, _text(entries[name]))
        except BadEntry as problem:
            problems.append(f"API key entry {name!r} {problem}; it is ignored.")
            continue
        if entry.digest in keys:
            first = keys[entry.digest]
            problems.append(f"API key entries {first!r} and {name!r} hold the same key; {name!r} is ignored.")
            continue
        keys[entry.digest] = name
        parsed.append(entry)
    if not parsed:
        problems.append("There is no usable API key entry: every request that needs a key is refused.")
    return KeyTable(tuple(parsed), tuple(problems))


def _text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise BadEntry("is not UTF-8 text") from None
    lines = text.lstrip(_BOM).splitlines()
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#")).strip()


def _parse(name: str, text: str) -> KeyEntry:
    if not text:
        raise BadEntry("is empty")
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except BadEntry:
        raise
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadEntry("is not a JSON object such as {sha256, tenant, admin, priority}")
    unknown = sorted(set(value) - {"sha256", "tenant", "admin", "priority"})
    if unknown:
        raise BadEntry("has a field besides sha256, tenant, admin and priority")
    tenant = value.get("tenant", name)
    if not isinstance(tenant, str) or not tenant.strip() or len(tenant) > 128:
        raise BadEntry("has a tenant that is not a text of 1 to 128 characters")
    admin = value.get("admin", False)
    if not isinstance(admin, bool):
        raise BadEntry("has an admin that is neither true nor false")
    low, high = _priorities(value.get("priority"))
    principal = Principal(
        key_id=name, tenant=tenant.strip(), admin=admin, min_priority=low, max_priority=high
    )
    return KeyEntry(_digest(value.get("sha256")), principal)


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadEntry("names a field twice")
    return found


def _digest(value: object) -> bytes:
    words = value.split() if isinstance(value, str) else []
    text = words[0].lower() if words else ""  # sha256sum prints the file's name after the digest
    if text in (_EMPTY_KEY, _EMPTY_LINE):
        raise BadEntry("holds the digest of an empty key")
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise BadEntry("has a sha256 that is not 64 hexadecimal digits")
    return digest


def _priorities(value: object) -> tuple[int, int]:
    """Without a range a key may lower itself but never step in front of others."""
    if value is None:
        return 0, MAX_PRIORITY
    if not isinstance(value, dict) or set(value) - {"min", "max"}:
        raise BadEntry("has a priority that is not an object of min and max")
    bounds = (value.get("min", 0), value.get("max", MAX_PRIORITY))
    for bound in bounds:
        if not isinstance(bound, int) or isinstance(bound, bool) or not MIN_PRIORITY <= bound <= MAX_PRIORITY:
            raise BadEntry("has a priority that is not a whole number of 32 bits")
    low, high = bounds
    if low > high:
        raise BadEntry("has a priority whose min is above its max")
    return low, high
