"""What every pod of ours is held to: the restricted Pod Security Standard, and no write to its own image."""

from __future__ import annotations

from typing import Any

USER = 10001


def pod() -> dict[str, Any]:
    """A pod's securityContext. The group owns mounted volumes, so that the user can write to them."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container() -> dict[str, Any]:
    """A container's securityContext."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
