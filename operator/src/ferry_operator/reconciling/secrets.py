"""Contents that are drawn at random, once, when the object that holds them is made."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets

from ferry_operator.plan.model import Generated

_BYTES = 32  # 256 bits: nothing to be gained by guessing, digest known or not


def contents(generated: Generated) -> dict[str, str]:
    """A Secret's `data`, base64-encoded as Kubernetes wants it."""
    drawn = secrets.token_urlsafe(_BYTES)
    if generated == Generated.REDIS_PASSWORD:
        return _encoded({"password": drawn})
    entry = {"sha256": hashlib.sha256(drawn.encode()).hexdigest(), "tenant": "admin", "admin": True}
    # Pods get the entry alone; the key itself is for whoever may read the Secret.
    return _encoded({"key": drawn, "admin": json.dumps(entry)})


def _encoded(values: dict[str, str]) -> dict[str, str]:
    return {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
