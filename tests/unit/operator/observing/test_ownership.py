"""Which fields are ours is read from managedFields; drift is a difference in those alone."""

from __future__ import annotations

import copy

import pytest
from tests.unit.operator.live import applied
from tests.unit.operator.samples import plan

from ferry_operator.kinds import CONFIG_MAP, DEPLOYMENT, SERVICE
from ferry_operator.observing.ownership import data_entries, live_digest, planned_digest, quantity


def deployment(spec=None):
    return plan(spec).get(DEPLOYMENT, "chat-runtime").manifest


@pytest.mark.parametrize("kind", [DEPLOYMENT, CONFIG_MAP, SERVICE], ids=str)
def test_what_was_applied_is_as_planned(kind):
    for planned in plan().of_kind(kind):
        assert live_digest(applied(planned.manifest)) == planned_digest(planned.manifest)


def test_what_the_server_and_others_add_is_invisible():
    manifest = deployment()
    live = applied(manifest)
    live["status"] = {"replicas": 1}
    live["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "3"
    template = live["spec"]["template"]
    template["metadata"]["creationTimestamp"] = None
    template["spec"]["containers"].append({"name": "sidecar", "image": "x"})
    template["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    template["spec"]["containers"][0]["env"].insert(0, {"name": "INJECTED", "value": "1"})
    live["metadata"]["managedFields"].append({"manager": "other", "operation": "Update", "fieldsV1": {}})
    assert live_digest(live) == planned_digest(manifest)


@pytest.mark.parametrize(
    "change",
    [
        lambda live: live["spec"].update(replicas=5),
        lambda live: live["spec"]["template"]["spec"]["containers"][0].update(image="other"),
        lambda live: live["spec"]["template"]["spec"]["containers"].pop(),
        lambda live: live["metadata"]["labels"].clear(),
        lambda live: live["metadata"].pop("ownerReferences"),
    ],
)
def test_a_changed_or_removed_field_of_ours_is_drift(change):
    live = applied(deployment())
    change(live)
    assert live_digest(live) != planned_digest(deployment())


def test_a_field_that_another_manager_took_is_drift():
    live = applied(deployment())
    del live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:replicas"]
    assert live_digest(live) != planned_digest(deployment())


def test_a_key_that_is_no_longer_planned_is_a_difference():
    live = applied(deployment({"engine": {"env": [{"name": "A", "value": "1"}]}}))
    assert live_digest(live) != planned_digest(deployment())


def test_the_order_of_keys_does_not_count():
    manifest = deployment()
    turned = dict(reversed(copy.deepcopy(manifest).items()))
    assert planned_digest(turned) == planned_digest(manifest)


def test_quantities_are_compared_as_numbers():
    asked = {"resources": {"requests": {"cpu": "1000m", "memory": "0.5Gi"}, "limits": {"cpu": 2}}}
    live = applied(deployment(asked))
    container = live["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"cpu": "2"}}
    assert live_digest(live) == planned_digest(deployment(asked))


def test_an_object_that_we_never_applied_has_no_digest():
    live = applied(deployment())
    live["metadata"]["managedFields"][0]["manager"] = "kubectl"
    assert live_digest(live) is None


def test_our_status_writes_are_not_taken_for_the_spec():
    live = applied(deployment())
    live["metadata"]["managedFields"][0]["subresource"] = "status"
    assert live_digest(live) is None


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("1500m", 1.5), ("2Ki", 2048), (3, 3), ("1e3", 1000)])
def test_quantities_are_read(text, number):
    assert float(quantity(text)) == number


@pytest.mark.parametrize("text", ["much", "1e", "1e9999999999999999999", "", "NaNa"])
def test_what_is_no_quantity_is_none(text):
    assert quantity(text) is None


def managed(*fields):
    return {"metadata": {"managedFields": [{"manager": "a", "fieldsV1": f} for f in fields]}}


@pytest.mark.parametrize(
    ("live", "entries"),
    [
        (managed({"f:data": {".": {}, "f:token": {}}, "f:type": {}}), {"token"}),
        (managed({"f:data": {"f:a": {}}}, {"f:data": {"f:b.c": {}, "f:a": {}}}), {"a", "b.c"}),
        (managed({"f:type": {}}), set()),
        (managed({"f:stringData": {"f:a": {}}}), {"a"}),
        (managed(), None),
        (managed({}), None),
        ({"metadata": {}}, None),
    ],
)
def test_entries_are_known_by_name_without_their_contents(live, entries):
    assert data_entries(live) == entries
