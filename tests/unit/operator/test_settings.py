"""Settings are checked when the process starts, and every mistake names its variable."""

from __future__ import annotations

import pytest

from ferry_operator.errors import InvalidSettings
from ferry_operator.settings import Rollout, from_environment


def test_the_scope_has_to_be_chosen():
    with pytest.raises(InvalidSettings, match="FERRY_SCOPE"):
        from_environment({})


def test_the_whole_cluster():
    assert from_environment({"FERRY_SCOPE": "*"}).cluster_wide
    a_name_like_any = from_environment({"FERRY_SCOPE": "cluster"})
    assert a_name_like_any.namespaces == ("cluster",)


def test_some_namespaces():
    settings = from_environment({"FERRY_SCOPE": "b, a,b"})
    assert (settings.namespaces, settings.cluster_wide) == (("a", "b"), False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FERRY_SCOPE", "Not_A_Name"),
        ("FERRY_RUNTIME_ROLLOUT", "Sometimes"),
        ("FERRY_WORKERS", "many"),
        ("FERRY_WORKERS", "0"),
        ("FERRY_HTTP_PORT", "70000"),
    ],
)
def test_a_mistake_names_the_variable(name, value):
    with pytest.raises(InvalidSettings, match=name):
        from_environment({"FERRY_SCOPE": "*", name: value})


def test_an_empty_variable_is_an_unset_one():
    settings = from_environment({"FERRY_SCOPE": "*", "FERRY_RUNTIME_ROLLOUT": "", "FERRY_WORKERS": ""})
    assert settings.rollout is Rollout.ON_CHANGE


def test_labels_for_service_monitors_are_pairs():
    given = {"FERRY_SCOPE": "*", "FERRY_SERVICE_MONITOR_LABELS": "release=kps, example.com/team=a"}
    assert from_environment(given).monitor_labels == {"release": "kps", "example.com/team": "a"}


@pytest.mark.parametrize("text", ["release", "=a", "a b=c", "release=not a value"])
def test_what_is_no_label_is_refused_by_name(text):
    with pytest.raises(InvalidSettings, match="FERRY_SERVICE_MONITOR_LABELS"):
        from_environment({"FERRY_SCOPE": "*", "FERRY_SERVICE_MONITOR_LABELS": text})
