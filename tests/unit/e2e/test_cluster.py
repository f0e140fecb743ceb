"""The harness keeps away from clusters that are not its own."""

from __future__ import annotations

import pytest
import yaml
from e2e.harness.cluster import Cluster, ForeignCluster


def _kubeconfig(tmp_path, context, server):
    path = tmp_path / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {"current-context": context, "clusters": [{"name": context, "cluster": {"server": server}}]}
        )
    )
    return Cluster("ferry-e2e", path)


def test_its_own_cluster_is_taken(tmp_path):
    _kubeconfig(tmp_path, "kind-ferry-e2e", "https://127.0.0.1:41234").check_own()


@pytest.mark.parametrize(
    ("context", "server"),
    [
        pytest.param("production", "https://127.0.0.1:6443", id="another context"),
        pytest.param("kind-ferry-e2e", "https://api.example.com:6443", id="another machine"),
        pytest.param("kind-other", "https://127.0.0.1:6443", id="another kind cluster"),
    ],
)
def test_a_foreign_one_is_refused(tmp_path, context, server):
    with pytest.raises(ForeignCluster):
        _kubeconfig(tmp_path, context, server).check_own()
