"""A user's pod template is laid over the planned one as kubectl would."""

from __future__ import annotations

import pytest

from ferry_operator.plan.merge import _MERGE_KEYS, merged


def test_maps_merge_and_lists_of_named_things_merge_by_name():
    base = {"containers": [{"name": "runtime", "image": "a", "env": [{"name": "A", "value": "1"}]}]}
    patch = {
        "containers": [{"name": "runtime", "env": [{"name": "B", "value": "2"}]}, {"name": "side"}],
        "hostNetwork": True,
    }
    both = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert merged(base, patch) == {
        "containers": [{"name": "runtime", "image": "a", "env": both}, {"name": "side"}],
        "hostNetwork": True,
    }


def test_mounts_merge_by_path_and_other_lists_are_replaced():
    base = {"volumeMounts": [{"name": "a", "mountPath": "/a"}], "args": ["x", "y"]}
    patch = {"volumeMounts": [{"name": "b", "mountPath": "/a"}], "args": ["z"]}
    assert merged(base, patch) == {"volumeMounts": [{"name": "b", "mountPath": "/a"}], "args": ["z"]}


def test_neither_argument_is_changed():
    base, patch = {"a": {"b": 1}}, {"a": {"c": 2}}
    merged(base, patch)
    assert (base, patch) == ({"a": {"b": 1}}, {"a": {"c": 2}})


@pytest.mark.parametrize("field", sorted(_MERGE_KEYS))
@pytest.mark.parametrize(
    "odd", [["x"], [None], [1], [["x"]], [{}], [{"name": []}], "x", 1, {}, {"a": "b"}], ids=repr
)
def test_what_has_no_shape_of_kubernetes_is_passed_on(field, odd):
    key = _MERGE_KEYS[field]
    base = {field: [{key: "a"}]}
    assert merged(base, {field: odd}) == {field: odd}
