"""Whole plans, to the byte: a changed pod template is a reload of every user's weights, so it must be seen.

To take over an intended change, run this file with FERRY_UPDATE_GOLDEN=1.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from tests.unit.operator.samples import plan

from ferry_operator.kinds import HTTP_ROUTE, SERVICE_MONITOR

_GOLDEN = Path(__file__).parent / "golden"

CASES = {
    "smallest": {},
    "gpu": {
        "model": {
            "source": "hf://meta-llama/Llama-3.1-8B",
            "secretRef": {"name": "hub"},
            "storage": {"size": "40Gi", "class": "fast"},
        },
        "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "64Gi"}},
        "nodeSelector": {"gpu": "a100"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "replicas": 2,
    },
    "everything-outside": {
        "model": {"source": "pvc://weights/llama", "servedName": "meta-llama/Llama-3.1-8B"},
        "cache": {
            "redis": {
                "external": {"urlSecretRef": {"name": "redis"}, "tls": {"caSecretRef": {"name": "redis-ca"}}}
            }
        },
        "auth": {"apiKeysSecretRef": {"name": "keys"}},
        "serviceAccountName": "mine",
        "network": {
            "httpRoute": {"parentRefs": [{"name": "public"}], "hostnames": ["llm.example.com"]},
        },
        "podTemplate": {
            "metadata": {"annotations": {"example.com/team": "a"}},
            "spec": {
                "containers": [{"name": "runtime", "env": [{"name": "TZ", "value": "UTC"}]}, {"name": "x"}]
            },
        },
        "topologySpreadConstraints": [{"topologyKey": "kubernetes.io/hostname"}],
        "updateStrategy": "Recreate",
        "drainTimeout": "90s",
    },
    "redis": {
        "cache": {
            "redis": {
                "managed": {
                    "resources": {"limits": {"memory": "1Gi"}},
                    "storage": {"size": "2Gi", "class": "fast"},
                }
            }
        },
        "network": {
            "ingress": {"host": "llm.example.com", "tlsSecretName": "tls", "className": "nginx"},
            "networkPolicy": {"enabled": False},
        },
        "suspend": True,
    },
}


@pytest.mark.parametrize("case", CASES)
def test_the_plan_is_the_recorded_one(case):
    made = plan(CASES[case], served=frozenset({HTTP_ROUTE, SERVICE_MONITOR}))
    text = yaml.safe_dump_all([planned.manifest for planned in made.objects], sort_keys=True, width=110)
    recorded = _GOLDEN / f"{case}.yaml"
    if os.environ.get("FERRY_UPDATE_GOLDEN"):
        recorded.write_text(text)
    assert text == recorded.read_text()
