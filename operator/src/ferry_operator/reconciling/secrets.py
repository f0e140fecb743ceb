"""Secrets: contents that are drawn at random once, and what is missing of the user's."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from ferry_operator.observing.ownership import data_entries
from ferry_operator.observing.pods import Trouble
from ferry_operator.plan.model import Generated
from ferry_operator.plan.volumes import UserSecret

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


def missing(wanted: UserSecret, live: Mapping[str, Any] | None) -> Trouble | None:
    """What pods wait for of a Secret, by its metadata alone; None: nothing, as far as that tells."""
    if live is None:
        return Trouble(
            "SecretNotFound", f"Secret {wanted.name} does not exist: create it, or change spec.{wanted.field}"
        )
    entries = data_entries(live)
    if wanted.entry is None or entries is None or wanted.entry in entries:
        return None
    return Trouble(
        "SecretEntryNotFound",
        f"Secret {wanted.name} has no entry {wanted.entry}: add it, or change spec.{wanted.field}.key",
    )
