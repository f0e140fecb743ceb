"""Which routes need what. A route that is in none of the lists needs an admin's key."""

from __future__ import annotations

from enum import Enum


class Access(Enum):
    OPEN = "open"  # nobody is asked: probes, what Prometheus scrapes, static files
    KEY = "key"  # any key, or none where the service has no API keys
    OWN = "own"  # a key in any case: what belongs to everybody without one is not anybody's to take
    ADMIN = "admin"


# The handler of /metrics asks for an admin itself before it answers with the JSON summary.
# The dashboard's page is the same for everybody; its numbers are at /dashboard/data, for admins.
OPEN_ROUTES = frozenset(
    {
        "GET /livez",
        "GET /readyz",
        "GET /health",
        "GET /metrics",
        "GET /dashboard",
        "GET /dashboard/",
        "GET /dashboard/assets/{name}",
    }
)

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
        "GET /docs/swagger-ui.js",
        "GET /docs/swagger-ui.css",
        "GET /openapi.json",
    }
)

# Their handlers show and evict only what belongs to the key's tenant, unless it is an admin's.
OWN_ROUTES = frozenset({"GET /cache/entries/{entry}", "DELETE /cache/entries/{entry}"})


def access_to(method: str, template: str | None) -> Access:
    """``template`` is None where no route serves the request: then any key gets the 404 or 405."""
    if template is None:
        return Access.KEY
    name = f"{'GET' if method == 'HEAD' else method} {template}"
    if name in OPEN_ROUTES:
        return Access.OPEN
    if name in KEY_ROUTES:
        return Access.KEY
    return Access.OWN if name in OWN_ROUTES else Access.ADMIN
