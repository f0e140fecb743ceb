"""Opening the port before anything slow, and saying what to do when that fails."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket

import psutil

from ferry_runtime.cli.exits import CommandFailed, Exit

_BACKLOG = 2048
# A client that takes nothing of what is sent to it for so long has left: its connection, and what the
# kernel holds for it, would otherwise stay for ever, also after the answer is written.
_STUCK_MILLISECONDS = 120_000


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; ``host`` "" means every address. Raises CommandFailed with what stands in
    the way."""
    if not host:
        host = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 (that is what was asked for)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise CommandFailed(Exit.PORT, f"{host!r} is not an address of this machine.") from None
    # With the protocol named: asyncio turns Nagle's algorithm off only where it says TCP, and otherwise
    # every second write of a kept connection waits 40 ms for the peer's delayed acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it (tcp(7))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STUCK_MILLISECONDS)
    if family == socket.AF_INET6 and address[0] == "::":
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise CommandFailed(Exit.PORT, _why(error, host, port)) from None
    listener.setblocking(False)
    return listener


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


def _why(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            holder = _holder(port)
            by = f" by {holder}" if holder else ""
            return f"Port {port} is already in use{by}: stop that, or choose another with --port {port + 1}."
        case errno.EACCES:
            return f"Port {port} may only be opened by root: choose one above 1023 with --port."
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine."
        case _:
            return f"{host}:{port} cannot be listened on: {os.strerror(error.errno or 0)}."


def _holder(port: int) -> str | None:
    """The process that listens there, as far as this user may see it."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
    return None
