"""Who may wait at all: bounds counted at the moment of asking, so that they are exact in a burst.

Only requests that cannot start at once count: on an idle server with 8 slots and maxRequests 4,
the first 12 of any burst are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ferry_runtime.scheduling.job import Job


class RejectReason(StrEnum):
    """Why a request was refused; the label of ferry_requests_rejected_total."""

    QUEUE_REQUESTS = "queue_requests"
    QUEUE_TOKENS = "queue_tokens"
    TENANT = "tenant"
    WAIT = "wait"
    KV_MEMORY = "kv_memory"
    DEADLINE = "deadline"
    NOT_READY = "not_ready"
    DRAINING = "draining"


# Where there are several tenants, the part of the queue that one of them may fill: the rest is for
# whoever comes while it does.
_TENANT_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    max_requests: int = 256
    max_tokens: int = 65536
    timeout: float = 60.0  # seconds

    @property
    def tenant_requests(self) -> int:
        """The most that one of several tenants may have waiting."""
        return max(1, int(_TENANT_SHARE * self.max_requests))


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What waits and cannot start at once."""

    requests: int
    tokens: float
    spare_slots: int  # what is left when everything that can start has started


@dataclass(frozen=True, slots=True)
class Refusal:
    reason: RejectReason
    per_tenant: bool = False


def occupancy(waiting: Iterable[Job], tokens: float, requests: int, slots: int, submitted: int) -> Occupancy:
    """``waiting``: in order of admission, holding ``requests`` and ``tokens`` in sum.

    ``submitted`` sequences are in the engine; what exceeds its slots waits there. O(slots).
    """
    spare = slots - submitted
    if spare <= 0:
        return Occupancy(requests - spare, tokens, 0)
    for job in waiting:
        if spare <= 0:
            break
        spare -= job.sequences
        requests -= 1
        tokens -= job.cost
    return Occupancy(requests, tokens, max(spare, 0))


def refusal(
    job: Job, held: Occupancy, limits: QueueLimits, tenants: Mapping[str, int], *, several: bool
) -> Refusal | None:
    """None: admit. ``tenants``: waiting requests by tenant; ``several``: there are more tenants than
    this one, waiting or not.

    A full queue is the tenant's own doing (per_tenant) when it holds more than an even share of
    it; a server with one tenant is simply full.
    """
    if held.spare_slots > 0:
        return None
    if several and tenants.get(job.tenant, 0) >= limits.tenant_requests:
        return Refusal(RejectReason.TENANT, per_tenant=True)
    if held.requests >= limits.max_requests:
        return Refusal(RejectReason.QUEUE_REQUESTS, _holds_more_than_its_share(job.tenant, tenants))
    # One that alone exceeds the bound counts as the bound: it waits when nobody else does.
    if held.tokens + min(job.cost, limits.max_tokens) > limits.max_tokens:
        return Refusal(RejectReason.QUEUE_TOKENS, _holds_more_than_its_share(job.tenant, tenants))
    return None


def _holds_more_than_its_share(tenant: str, tenants: Mapping[str, int]) -> bool:
    sharing = len(tenants.keys() | {tenant})
    return sharing > 1 and tenants.get(tenant, 0) * sharing > sum(tenants.values())
