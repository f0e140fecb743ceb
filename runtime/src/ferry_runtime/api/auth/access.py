"""Which routes need what. A route that is in neither list needs an admin's key."""

from __future__ import annotations

from enum import Enum


class Access(Enum):
    OPEN = "open"  # nobody is asked: probes, and what Prometheus scrapes
    KEY = "key"  # any key
    ADMIN = "admin"


# The handler of /metrics asks for an admin itself before it answers with the JSON summary.
OPEN_ROUTES = frozenset({"GET /livez", "GET /readyz", "GET /health", "GET /metrics"})

KEY_ROUTES = frozenset(
    {
        "GET /v1/models",
        "GET /v1/models/{model:path}",
        "POST /v1/chat/completions",
        "POST /v1/completions",
        "POST /v1/embeddings",
        "POST /generate",
        "POST /tokenize",
        "POST /detokenize",
        "GET /version",
        "GET /docs",
        "GET /openapi.json",
    }
)


def access_to(method: str, template: str | None) -> Access:
    """``template`` is None where no route serves the request: then any key gets the 404 or 405."""
    if template is None:
        return Access.KEY
    name = f"{'GET' if method == 'HEAD' else method} {template}"
    if name in OPEN_ROUTES:
        return Access.OPEN
    return Access.KEY if name in KEY_ROUTES else Access.ADMIN
