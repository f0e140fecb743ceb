"""Where the shared store is, parsed from a URL or given in parts; never shows its password."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self
from urllib.parse import parse_qs, unquote

from ferry_runtime.errors import ConfigurationError

_SCHEMES = ("redis", "rediss", "unix", "valkey", "valkeys")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """``path`` (a Unix socket) takes the place of host and port. ``ca_file`` is PEM, for TLS."""

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca_file: str | None = None

    @property
    def label(self) -> str:
        """For logs and errors."""
        where = self.path or (f"[{self.host}]" if ":" in self.host else self.host) + f":{self.port}"
        return f"{where}/{self.db}"

    @property
    def place(self) -> Self:
        """Where it is, without who comes in."""
        return replace(self, username=None, password=None)

    @classmethod
    def parse(
        cls, url: str, *, username: str | None = None, password: str | None = None, ca_file: str | None = None
    ) -> Self:
        """``redis[s]://[user[:password]@]host[:port][/db]`` or ``unix://[…@]/path[?db=n]``.

        What stands before the last ``@`` is the user part and is percent-decoded exactly once, so a
        generated password is best passed apart: ``password`` then wins and is taken as it is.
        Raises ConfigurationError, whose text never quotes the URL.
        """
        scheme, found, rest = url.strip().partition("://")
        if not found or scheme not in _SCHEMES:
            raise ConfigurationError("The store's address must start with redis://, rediss:// or unix://.")
        login, _, place = rest.rpartition("@")
        user, _, word = login.partition(":")
        place, _, query = place.partition("?")
        options = parse_qs(query)
        username = username or unquote(user) or None
        password = password if password is not None else (unquote(word) or None)
        if scheme == "unix":
            db = _number(options.get("db", ["0"])[0], "database")
            return cls(path=unquote(place), db=db, username=username, password=password)
        authority, _, path = place.partition("/")
        host, port = _host_and_port(authority)
        return cls(
            host=host,
            port=port,
            db=_number(options.get("db", [path.strip("/") or "0"])[0], "database"),
            username=username,
            password=password,
            tls=scheme in ("rediss", "valkeys"),
            ca_file=ca_file,
        )


def _host_and_port(authority: str) -> tuple[str, int]:
    if authority.startswith("["):
        host, _, tail = authority[1:].partition("]")
        port = tail.removeprefix(":")
    else:
        host, _, port = authority.partition(":")
    if not host:
        raise ConfigurationError("The store's address names no host.")
    return unquote(host), _number(port or "6379", "port")


def _number(text: str, what: str) -> int:
    if not text.isdecimal():
        raise ConfigurationError(f"The store's address has a {what} that is not a number.")
    return int(text)
