"""The connection to Redis or Valkey: deadlines, our own pool limit, errors in our vocabulary."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.connection import Connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError, AuthorizationError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from ferry_runtime.errors import StoreBusy, StoreMisused, StoreRefused, StoreUnavailable
from ferry_runtime.store.address import StoreAddress

T = TypeVar("T")

# What a server answers while it cannot serve at all, as ordinary error replies.
_UNSERVABLE = (
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "NOAUTH",
    "WRONGPASS",
    "BUSY",
    "ERR max number of clients",
)


class CurrentCredentials(CredentialProvider):
    """Asked for every new connection: a rotated password is used from the next one on, and the
    connections that are open, which the server lets be, are not given up for it."""

    def __init__(self, address: Callable[[], StoreAddress]) -> None:
        self._address = address

    def get_credentials(self) -> Any:
        """User and password, a password, or neither, which redis-py's own annotation leaves out."""
        address = self._address()
        if address.username is not None:
            return address.username, address.password or ""
        return (address.password,) if address.password is not None else ()


def connect(address: Callable[[], StoreAddress], *, connections: int, socket_timeout: float | None) -> Any:
    """A lazy client over RESP2, so that reply shapes do not depend on the server's age, of the place
    that ``address`` names now; its credentials may change later. Untyped: redis-py's annotations join
    the reply shapes of every protocol."""
    place = address()
    options: dict[str, Any] = {
        "db": place.db,
        "credential_provider": CurrentCredentials(address),
        "socket_timeout": socket_timeout,
        "socket_connect_timeout": 1.0,
        "retry": Retry(NoBackoff(), 1),  # a pooled connection may have died with an earlier server
        "protocol": 2,
        "client_name": "ferry",
    }
    kind: type[Connection | UnixDomainSocketConnection] = Connection
    if place.path is not None:
        kind, options["path"] = UnixDomainSocketConnection, place.path
    else:
        options |= {"host": place.host, "port": place.port}
        if place.tls:
            kind = SSLConnection
            options |= {"ssl_ca_certs": place.ca_file, "ssl_min_version": ssl.TLSVersion.TLSv1_2}
    pool = BlockingConnectionPool(
        connection_class=kind, max_connections=connections + 2, timeout=1, **options
    )
    return Redis(connection_pool=pool)


class Gate:
    """At most ``width`` calls at a time, each within its deadline, in seconds.

    A wait for a free place is told apart from a wait for the server: only the second says anything
    about the server.
    """

    def __init__(self, width: int) -> None:
        self._places = asyncio.Semaphore(width)

    async def call(self, action: Callable[[], Awaitable[T]], deadline: float) -> T:
        """Raises StoreBusy, StoreUnavailable, StoreRefused or, of these, StoreMisused."""
        loop = asyncio.get_running_loop()
        until = loop.time() + deadline
        try:
            async with asyncio.timeout_at(until):
                await self._places.acquire()
        except TimeoutError:
            raise StoreBusy("every connection to the store is in use") from None
        try:
            async with asyncio.timeout_at(until):
                return await action()
        except (TimeoutError, RedisTimeoutError):
            raise StoreUnavailable("the store did not answer in time") from None
        except (AuthenticationError, AuthorizationError):
            raise StoreUnavailable("the store refused the credentials") from None
        except (RedisConnectionError, OSError):
            raise StoreUnavailable("the store cannot be reached") from None
        except RedisError as error:
            raise _refusal(str(error)) from None
        finally:
            self._places.release()


def _refusal(text: str) -> StoreRefused | StoreUnavailable:
    """Server error texts start with a code word; nothing else of them is passed on."""
    if text.startswith(_UNSERVABLE):
        return StoreUnavailable("the store cannot serve now")
    if "WRONGTYPE" in text:  # not at the start where the command was part of a transaction
        return StoreMisused("the store holds something else under one of our keys")
    code = text.split(" ", 1)[0]
    return StoreRefused(f"the store refused the command ({code if code.isupper() else 'error'})")
