"""What replicas tell each other through the stream of changes."""

from __future__ import annotations

import msgspec


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """A replica wrote this entry."""

    replica: str
    id: str


class Judged(msgspec.Struct, frozen=True, array_like=True):
    """Somebody found whether an entry's answer fitted a question. ``label`` as in `labels.encode`;
    ``expires`` is the entry's, in Unix seconds."""

    id: str
    owner: str
    model: str
    expires: float
    label: int


class Scope(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Which entries an order is about: all of a tenant's, of a model's, or named ones. An absent
    part does not narrow it down."""

    tenant: str | None = None
    model: str | None = None
    ids: frozenset[str] | None = None

    def covers(self, *, entry_id: str, tenant: str, model: str) -> bool:
        return (
            (self.tenant is None or self.tenant == tenant)
            and (self.model is None or self.model == model)
            and (self.ids is None or entry_id in self.ids)
        )


_encode = msgspec.msgpack.Encoder().encode
_stored = msgspec.msgpack.Decoder(Stored)
_judged = msgspec.msgpack.Decoder(Judged)
_scope = msgspec.msgpack.Decoder(Scope)


def encode(message: Stored | Judged | Scope) -> bytes:
    return _encode(message)


def decode_stored(data: bytes) -> Stored | None:
    """None for what is not ours: the stream is shared like the rest of the store."""
    try:
        return _stored.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decode_judged(data: bytes) -> Judged | None:
    try:
        return _judged.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decode_scope(data: bytes) -> Scope | None:
    try:
        return _scope.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
