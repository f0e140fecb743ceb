"""Why a pod does not serve, in the words that Kubernetes itself uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ferry_operator.kinds import Kind

_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
_LENGTH = 256  # characters of a message that are kept
HOPELESS = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CrashLoopBackOff",
        "OOMKilled",
        "CannotCreatePods",
    }
)
"""Reasons that somebody has to act upon; the others may pass, as when a node is added."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A CamelCase reason and a sentence."""

    reason: str
    message: str
    about: tuple[Kind, str] | None = None
    """Kind and name of the object that could not be had, if it is one."""


def trouble(pod: Mapping[str, Any]) -> Trouble | None:
    """What keeps a pod from serving; None while it is only starting, or when it serves."""
    status = pod.get("status", {})
    for state in _container_states(status):
        found = _container_trouble(state)
        if found:
            return found
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Trouble(
                condition.get("reason", "Unschedulable"),
                cut(f"Unschedulable: {condition.get('message', 'no node fits')}"),
            )
    if status.get("phase") == "Failed":
        return Trouble(status.get("reason", "PodFailed"), cut(status.get("message", "the pod failed")))
    return None


def _container_states(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses", ())
    yield from status.get("containerStatuses", ())


def _container_trouble(container: Mapping[str, Any]) -> Trouble | None:
    name = container["name"]
    waiting = container.get("state", {}).get("waiting")
    last = container.get("lastState", {}).get("terminated") or {}
    if waiting and waiting.get("reason", "") not in {*_STARTING, ""}:
        reason, message = waiting["reason"], waiting.get("message", "")
        if reason == "CrashLoopBackOff" and last.get("reason") == "OOMKilled":
            return _out_of_memory(name)
        if reason == "CrashLoopBackOff":
            message = _ended(last) or message
        return Trouble(reason, cut(f"container {name}: {reason}: {message}".rstrip(": ")))
    ended = container.get("state", {}).get("terminated") or {}
    if ended.get("reason") == "OOMKilled" or (
        not container.get("ready") and last.get("reason") == "OOMKilled"
    ):
        return _out_of_memory(name)
    if ended and ended.get("exitCode", 0) != 0:
        return Trouble("ContainerFailed", cut(f"container {name}: {_ended(ended)}"))
    return None


def _out_of_memory(name: str) -> Trouble:
    return Trouble(
        "OOMKilled", f"container {name}: OOMKilled: it needed more memory than resources.limits.memory allows"
    )


def _ended(terminated: Mapping[str, Any]) -> str:
    """How a container ended; its own last words are the runtime's sentence for users."""
    if not terminated:
        return ""
    words = str(terminated.get("message") or "").strip()
    return f"exit code {terminated.get('exitCode')}" + (f": {words}" if words else "")


def cut(text: str) -> str:
    """At most as much of a message of others as is worth keeping."""
    return text if len(text) <= _LENGTH else text[: _LENGTH - 1] + "…"
