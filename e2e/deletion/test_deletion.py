"""Nothing of the operator's making is left; what users made is."""

from __future__ import annotations

from pathlib import Path

from e2e.harness.cluster import wait_for

HERE = Path(__file__).parent
_KINDS = "deployments,replicasets,pods,services,configmaps,secrets,serviceaccounts,pvc,pdb,networkpolicies"


def _left(place):
    # A namespace always has these two.
    own = {"configmap/kube-root-ca.crt", "serviceaccount/default", "pod/client"}
    found = place.kubectl("get", _KINDS, "--output=name").split()
    return {name for name in found if name not in own}


def test_a_service_goes_with_all_that_was_made_for_it(place):
    place.kubectl("create", "secret", "generic", "mine", "--from-literal=a=b")
    place.apply(HERE / "service.yaml")
    place.wait_ready("gone")
    place.kubectl("delete", "infsvc", "gone", "--timeout=60s")
    wait_for("nothing but the user's own to be left", lambda: _left(place) == {"secret/mine"})


def test_a_namespace_goes_although_the_operator_is_away(place, release):
    place.apply(HERE / "service.yaml")
    place.wait_ready("gone")
    release.install(replicas="0")
    try:
        wait_for("the operator to be gone", lambda: not release.operator_pods())
        place.cluster.kubectl("delete", "namespace", place.namespace, "--timeout=120s", seconds=150)
    finally:
        release.install()
