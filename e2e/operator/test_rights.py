"""What the operator may do in a real cluster is what its roles list."""

from __future__ import annotations

import json

import yaml
from e2e.harness.release import NAMESPACE
from tests.integration.operator.process import chart_rules


def _may(cluster, account):
    """What the API server lets an account do, as `kubectl auth can-i --list` asks it."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": NAMESPACE},
    }
    user = f"--as=system:serviceaccount:{NAMESPACE}:{account}"
    said = cluster.kubectl(
        "create", user, "--validate=ignore", "--filename=-", "--output=json", text=yaml.safe_dump(review)
    )
    status = json.loads(said)["status"]
    assert not status.get("incomplete")
    return _rights(status["resourceRules"])


def _rights(rules):
    return {
        (group, resource, verb, name)
        for rule in rules
        for group in rule.get("apiGroups", [""])
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", ["any"])
    }


def test_the_operator_may_do_what_its_roles_list_and_no_more(release):
    """That each of these is also used is compared with the calls that a real API server recorded, by the
    operator's own tests."""
    listed = {
        right for name in ("role", "cluster-role", "lease-role") for right in _rights(chart_rules(name))
    }
    mine, anyones = _may(release.cluster, "ferry-operator"), _may(release.cluster, "default")
    assert mine - anyones == listed
