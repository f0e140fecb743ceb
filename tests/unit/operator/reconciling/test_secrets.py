"""What is drawn at random is different each time, and fits what reads it."""

from __future__ import annotations

import base64
import hashlib
import json

from ferry_operator.plan.model import Generated
from ferry_operator.reconciling.secrets import contents


def decoded(generated):
    return {name: base64.b64decode(value).decode() for name, value in contents(generated).items()}


def test_no_two_are_alike():
    for generated in Generated:
        assert contents(generated) != contents(generated)


def test_the_admins_entry_opens_with_the_admins_key_and_does_not_hold_it():
    found = decoded(Generated.ADMIN_KEY)
    entry = json.loads(found["admin"])
    assert entry["sha256"] == hashlib.sha256(found["key"].encode()).hexdigest()
    assert entry["admin"] is True
    assert found["key"] not in found["admin"]


def test_a_password_needs_no_quoting():
    assert decoded(Generated.REDIS_PASSWORD)["password"].replace("-", "").replace("_", "").isalnum()
