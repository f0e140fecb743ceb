"""From an Authorization header to a principal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ferry_runtime.api.auth.keys import KeyTable
from ferry_runtime.api.auth.principal import LOCAL_USER, NOBODY, Principal


class AuthPolicy(Protocol):
    def authenticate(self, authorization: Sequence[bytes], /) -> Principal | None:
        """Who sent these Authorization headers; None refuses."""
        ...


class OpenPolicy:
    """Everybody may do everything: only for ``ferry run``, which listens on 127.0.0.1."""

    def authenticate(self, _authorization: Sequence[bytes], /) -> Principal | None:
        return LOCAL_USER


class KeyPolicy:
    """Keys decide. ``anonymous`` admits requests without a known key as one tenant, never as
    admin: a service whose manifest names no API keys still guards its admin routes so."""

    def __init__(self, table: Callable[[], KeyTable], *, anonymous: bool = False) -> None:
        self._table = table
        self._anonymous = anonymous

    def authenticate(self, authorization: Sequence[bytes], /) -> Principal | None:
        secret = bearer(authorization)
        known = self._table().find(secret) if secret else None
        if known is None and self._anonymous:
            return NOBODY
        return known


def bearer(authorization: Sequence[bytes]) -> bytes | None:
    """The key of the one ``Authorization: Bearer`` header; two headers are no header."""
    if len(authorization) != 1:
        return None
    scheme, _, secret = authorization[0].strip().partition(b" ")
    return secret.strip() or None if scheme.lower() == b"bearer" else None
