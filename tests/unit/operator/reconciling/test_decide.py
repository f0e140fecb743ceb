"""What is done about a difference, and what is left alone."""

from __future__ import annotations

import pytest
from tests.unit.operator.live import applied
from tests.unit.operator.samples import UID, plan

from ferry_api.values import Quantity
from ferry_operator.kinds import CONFIG_MAP, DEPLOYMENT, REPLICA_SET, SECRET, VOLUME_CLAIM
from ferry_operator.observing.facts import Observed, ReplicaSetFacts, observe
from ferry_operator.observing.ownership import planned_digest
from ferry_operator.reconciling.decide import Create, Delete, Update, Wait, steps, waves

_RETAINED = {"model": {"source": "hf://a/b", "storage": {"size": "1Gi"}}}


def children(made):
    found = {}
    for planned in made.objects:
        found[planned.key] = observe(planned.kind, applied(planned.manifest, uid=planned.name))
    return found


def changed(observed, **values):
    given = {name: getattr(observed, name) for name in Observed.__slots__}
    return Observed(**{**given, **values})


def test_everything_is_created_in_the_order_in_which_it_is_needed():
    made = plan()
    todo = steps(made, {}, UID, {})
    assert [step.planned for step in todo] == list(made.objects)
    assert all(isinstance(step, Create) for step in todo)
    names = [step.planned.manifest["kind"] for step in todo]
    assert names.index("Secret") < names.index("Deployment")
    assert names.index("ConfigMap") < names.index("Deployment")


def test_nothing_is_done_when_all_is_as_planned():
    made = plan(_RETAINED)
    assert steps(made, children(made), UID, {}) == []


def test_drift_is_taken_back():
    made, key = plan(), (DEPLOYMENT, "chat-runtime")
    seen = children(made)
    seen[key] = changed(seen[key], digest=b"other")
    assert steps(made, seen, UID, {}) == [Update(made.get(*key), force=True)]


def test_a_spelling_of_the_servers_is_accepted_once_it_is_known():
    made, key = plan(), (DEPLOYMENT, "chat-runtime")
    seen = children(made)
    seen[key] = changed(seen[key], digest=b"spelled otherwise")
    settled = {key: (planned_digest(made.get(*key).manifest), b"spelled otherwise")}
    assert steps(made, seen, UID, settled) == []
    later = plan({"replicas": 3})
    assert Update(later.get(*key), force=True) in steps(later, seen, UID, settled)


def test_an_object_of_ours_without_an_owner_is_asked_for_without_force():
    made, key = plan(), (DEPLOYMENT, "chat-runtime")
    seen = children(made)
    seen[key] = changed(seen[key], owner=None, digest=b"other")
    assert steps(made, seen, UID, {}) == [Update(made.get(*key), force=False)]


def test_a_generated_secret_is_left_alone_whatever_it_holds():
    made, key = plan(), (SECRET, "chat-redis")
    seen = children(made)
    seen[key] = changed(seen[key], digest=b"edited by hand")
    assert steps(made, seen, UID, {}) == []


def test_a_predecessors_object_is_waited_for():
    made, key = plan(), (DEPLOYMENT, "chat-runtime")
    seen = children(made)
    seen[key] = changed(seen[key], owner="another uid")
    assert steps(made, seen, UID, {}) == [Wait(seen[key])]


def test_an_object_that_is_going_is_waited_for():
    made, key = plan(), (DEPLOYMENT, "chat-runtime")
    seen = children(made)
    seen[key] = changed(seen[key], deleting=True)
    assert steps(made, seen, UID, {}) == [Wait(seen[key])]


def test_what_is_no_longer_planned_goes():
    before, after = plan(), plan({"cache": {"enabled": False}})
    gone = {
        step.observed.name for step in steps(after, children(before), UID, {}) if isinstance(step, Delete)
    }
    assert gone == {"chat-redis"}


def test_what_is_not_ours_never_goes():
    seen = children(plan())
    stray = changed(next(iter(seen.values())), owner=None, name="stray")
    elsewhere = changed(stray, owner="another uid", name="elsewhere")
    for found in (stray, elsewhere):
        seen[found.kind, found.name] = found
    assert [step for step in steps(plan(), seen, UID, {}) if isinstance(step, Delete)] == []


def test_a_retained_claim_never_goes():
    seen = children(plan(_RETAINED))
    todo = steps(plan(), seen, UID, {})
    assert [s for s in todo if isinstance(s, Delete) and s.observed.kind == VOLUME_CLAIM] == []


_VOLUMES = {**_RETAINED, "cache": {"redis": {"managed": {"storage": {"size": "1Gi"}}}}}


def sizes(made):
    return {
        claim.name: claim.manifest["spec"]["resources"]["requests"]["storage"]
        for claim in made.of_kind(VOLUME_CLAIM)
    }


@pytest.mark.parametrize(
    ("live", "planned"), [("3Gi", "3Gi"), ("1024Mi", "1Gi"), ("0.5Gi", "1Gi"), ("1Gi", "1Gi")]
)
def test_a_claim_that_was_grown_by_hand_is_planned_as_it_is(live, planned):
    names = ("chat-weights", "chat-redis")
    made = plan(_VOLUMES, claimed=dict.fromkeys(names, Quantity(live)))
    assert sizes(made) == dict.fromkeys(names, planned)


def test_a_grown_claim_is_no_drift():
    made = plan(_VOLUMES, claimed={"chat-weights": Quantity("3Gi"), "chat-redis": Quantity("2Gi")})
    assert steps(made, children(made), UID, {}) == []


def test_a_claim_tells_its_size():
    seen = children(plan(_VOLUMES))
    assert seen[VOLUME_CLAIM, "chat-weights"].facts.size == Quantity("1Gi")


def test_a_cold_config_stays_while_a_revision_refers_to_it():
    old = next(o for o in plan().of_kind(CONFIG_MAP) if o.name != "chat-runtime")
    later = plan({"batching": {"maxBatchSize": 2}})
    seen = {**children(plan()), **children(later)}
    revision = changed(
        seen[DEPLOYMENT, "chat-runtime"],
        kind=REPLICA_SET,
        owner=None,
        name="rs",
        facts=ReplicaSetFacts((old.name,)),
    )
    assert [s.observed.name for s in steps(later, seen, UID, {})] == [old.name]
    seen[REPLICA_SET, "rs"] = revision
    assert steps(later, seen, UID, {}) == []


def test_what_pods_refer_to_is_there_before_them():
    first, then = waves(steps(plan(), {}, UID, {}))
    kinds = {step.planned.manifest["kind"] for step in first}
    assert {"ConfigMap", "Secret", "ServiceAccount", "NetworkPolicy", "Service"} <= kinds
    assert {step.planned.manifest["kind"] for step in then} == {"Deployment"}
