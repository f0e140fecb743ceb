"""Secrets: the generated ones are drawn once, the user's are mounted and never read."""

from __future__ import annotations

import base64
import json
import time

from tests.integration.operator.audit import writes
from tests.integration.operator.cluster import wait_for


def test_a_rotated_secret_of_the_users_reaches_pods_by_its_mount_and_rolls_nothing(plane, ferry, service):
    chat = service(start=False)
    keys = chat.path("secrets", "keys")
    chat.api.create(chat.path("secrets"), {"metadata": {"name": "keys"}, "stringData": {"a": "{}"}})
    chat.apply(auth={"apiKeysSecretRef": {"name": "keys"}})
    chat.wait("Ready", "True")
    revisions = chat.revisions()
    position = plane.audit_position()
    chat.api.merge(keys, {"stringData": {"a": '{"sha256": "0"}', "b": "{}"}})
    chat.api.delete(keys)
    chat.api.create(chat.path("secrets"), {"metadata": {"name": "keys"}, "stringData": {"c": "{}"}})
    time.sleep(2)
    assert chat.revisions() == revisions
    assert writes(plane, position, chat.namespace) == []
    pod = chat.template()["spec"]
    (volume,) = [v for v in pod["volumes"] if v.get("secret", {}).get("secretName") == "keys"]
    (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == volume["name"]]
    assert "subPath" not in mount  # a file mounted by subPath is never renewed
    assert "items" not in volume["secret"]


def test_generated_secrets_are_kept_and_never_drawn_again(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    before = {name: chat.child("secrets", name)["data"] for name in ("chat-redis", "chat-admin")}
    chat.apply(batching={"maxBatchSize": 3})
    ferry.restart().wait_leading()
    chat.wait("Ready", "True")
    assert {name: chat.child("secrets", name)["data"] for name in before} == before
    entry = json.loads(base64.b64decode(before["chat-admin"]["admin"]))
    assert entry["admin"] is True


def _auth(chat):
    """What the template of Redis carries of its password."""
    return chat.child("deployments", "chat-redis")["spec"]["template"]["metadata"]["annotations"]


def test_a_changed_redis_password_rolls_redis_and_no_runtime(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    before, template = _auth(chat), chat.template()
    chat.api.merge(chat.path("secrets", "chat-redis"), {"stringData": {"password": "p@ss/w?rd#1%2F:+ &"}})
    wait_for("Redis to roll", lambda: _auth(chat) != before, 10)
    chat.wait("Ready", "True")
    assert chat.template() == template
    assert len(chat.revisions()) == 1
    assert base64.b64decode(chat.child("secrets", "chat-redis")["data"]["password"]).startswith(b"p@ss")


def test_a_deleted_redis_password_is_drawn_anew_and_rolls_redis_and_no_runtime(ferry, service):
    chat = service()
    chat.wait("Ready", "True")
    before, template = _auth(chat), chat.template()
    chat.api.delete(chat.path("secrets", "chat-redis"))
    wait_for("Redis to roll", lambda: _auth(chat) != before, 15)
    chat.wait("Ready", "True")
    assert chat.template() == template
    assert len(chat.revisions()) == 1
