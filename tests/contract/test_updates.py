"""What may not change on a stored resource."""

from __future__ import annotations

import pytest

from ferry_api.validation import validate_update

GROW = "a volume can grow, not shrink"
CLASS = "the class of a claimed volume cannot be changed"
REDIS = "spec.cache.redis.managed.storage"
MODE = "the access mode of a claimed volume cannot be changed"


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param({"size": "10Gi"}, {"size": "9Gi"}, ("size", GROW), id="shrunk"),
        pytest.param({"size": "10Gi"}, {"size": 1 << 30}, ("size", GROW), id="shrunk in bytes"),
        pytest.param(
            {"size": "1Gi", "class": "a"}, {"size": "1Gi", "class": "b"}, ("class", CLASS), id="class"
        ),
        pytest.param({"size": "1Gi"}, {"size": "1Gi", "class": "b"}, ("class", CLASS), id="class given"),
        pytest.param({"size": "1Gi", "class": "a"}, {"size": "1Gi"}, ("class", CLASS), id="class taken away"),
        pytest.param(
            {"size": "1Gi"}, {"size": "1Gi", "accessMode": "ReadWriteMany"}, ("accessMode", MODE), id="mode"
        ),
    ],
)
def test_a_claimed_volume_is_not_changed_in_place(admission, manifest, before, after, refused):
    at, says = refused
    old, new = manifest({"spec.model.storage": before}), manifest({"spec.model.storage": after})
    path = f"spec.model.storage.{at}"
    (refusal,) = admission.update(old, new).refusals
    assert refusal.path == path
    assert says in refusal.message
    (problem,) = validate_update(old, new)
    assert (problem.path, problem.message) == (refusal.path, refusal.message)


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param({"size": "2Gi"}, {"size": "1Gi"}, ("size", GROW), id="shrunk"),
        pytest.param(
            {"size": "1Gi", "class": "a"}, {"size": "1Gi", "class": "b"}, ("class", CLASS), id="class"
        ),
        pytest.param({"size": "1Gi"}, {"size": "1Gi", "class": "b"}, ("class", CLASS), id="class given"),
        pytest.param({"size": "1Gi", "class": "a"}, {"size": "1Gi"}, ("class", CLASS), id="class taken away"),
    ],
)
def test_nor_is_the_volume_of_redis(admission, manifest, before, after, refused):
    at, says = refused
    old, new = manifest({REDIS: before}), manifest({REDIS: after})
    (refusal,) = admission.update(old, new).refusals
    assert refusal.path == f"{REDIS}.{at}"
    assert says in refusal.message
    assert "remove storage" in refusal.message
    (problem,) = validate_update(old, new)
    assert (problem.path, problem.message) == (refusal.path, refusal.message)


def test_the_volume_of_redis_may_grow_come_and_go(admission, manifest):
    small = manifest({REDIS: {"size": "1Gi", "class": "a"}})
    large = manifest({REDIS: {"size": "2Gi", "class": "a"}})
    bare = manifest({"spec.cache.redis.managed": {}})
    other = manifest({REDIS: {"size": "1Gi", "class": "b"}})
    for old, new in ((small, large), (large, bare), (bare, other)):
        assert admission.update(old, new).refusals == []
        assert validate_update(old, new) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"size": "10Gi"}, {"size": "20Gi"}, id="grown"),
        pytest.param({"size": "1Gi"}, {"size": 1 << 30}, id="same in another spelling"),
        pytest.param({"size": "1Gi"}, {"existingClaim": "mine"}, id="own claim instead"),
        pytest.param({"size": "1Gi", "class": "a"}, {"existingClaim": "mine"}, id="own claim, no class"),
        pytest.param({"existingClaim": "mine"}, {"size": "1Gi", "class": "a"}, id="a claimed one instead"),
        pytest.param(
            {"size": "1Gi"},
            {"existingClaim": "mine", "accessMode": "ReadWriteMany"},
            id="own claim of another mode",
        ),
    ],
)
def test_other_changes_of_storage_pass(admission, manifest, before, after):
    old, new = manifest({"spec.model.storage": before}), manifest({"spec.model.storage": after})
    assert admission.update(old, new).refusals == []
    assert validate_update(old, new) == []


def test_storage_may_come_and_go(admission, manifest):
    bare, stored = manifest(), manifest({"spec.model.storage": {"size": "1Gi"}})
    assert admission.update(bare, stored).accepted
    assert admission.update(stored, bare).accepted
    assert validate_update(bare, stored) == validate_update(stored, bare) == []
