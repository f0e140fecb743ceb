"""A supervised child process that talks in MessagePack frames over a socketpair.

Parent (asyncio): `Supervisor` keeps one `python -m MODULE` alive and hands its messages to a
`Handler`. Child (synchronous): `connect()` gives the `Channel` to read and answer on.

There is no multiprocessing and no pickle: both sides name the msgspec structs that they accept.
"""

from ferry_runtime.process.backoff import Backoff
from ferry_runtime.process.channel import Channel, connect
from ferry_runtime.process.child import Child, ChildCommand, ChildGone, Exit
from ferry_runtime.process.supervisor import Handler, Supervisor

__all__ = [
    "Backoff",
    "Channel",
    "Child",
    "ChildCommand",
    "ChildGone",
    "Exit",
    "Handler",
    "Supervisor",
    "connect",
]
