"""Who sends a request, as far as a key tells."""

from __future__ import annotations

from dataclasses import dataclass

from ferry_runtime.errors import InvalidRequest

ANONYMOUS_TENANT = "anonymous"
MIN_PRIORITY = -(2**31)
MAX_PRIORITY = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """``key_id`` is None for someone without a key. Priorities are inclusive; lower goes first."""

    key_id: str | None
    tenant: str
    admin: bool = False
    min_priority: int = 0
    max_priority: int = MAX_PRIORITY

    def priority(self, asked: int | None) -> int:
        """The priority to schedule with; an omitted one is 0 or what comes nearest to it."""
        if asked is None:
            return min(max(0, self.min_priority), self.max_priority)
        if not self.min_priority <= asked <= self.max_priority:
            raise InvalidRequest(
                f"priority must be between {self.min_priority} and {self.max_priority} with this key.",
                param="priority",
            )
        return asked


NOBODY = Principal(key_id=None, tenant=ANONYMOUS_TENANT)
LOCAL_USER = Principal(key_id=None, tenant=ANONYMOUS_TENANT, admin=True, min_priority=MIN_PRIORITY)
