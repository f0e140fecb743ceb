"""The store keeps the latest news, and lists correct it without hiding what is younger."""

from __future__ import annotations

from tests.unit.operator.live import applied
from tests.unit.operator.samples import plan, resource

from ferry_operator.kinds import CONFIG_MAP, SECRET
from ferry_operator.labels import SERVICE
from ferry_operator.observing.facts import observe
from ferry_operator.observing.store import Key, Store

KEY = Key("team", "chat")


def child(version=1, uid="child"):
    return observe(
        CONFIG_MAP, applied(plan().get(CONFIG_MAP, "chat-runtime").manifest, version=version, uid=uid)
    )


def service(version):
    made = resource()
    made["metadata"]["resourceVersion"] = str(version)
    return made


def test_older_news_does_not_replace_newer():
    store = Store()
    store.put_child(child(version=10))
    store.put_child(child(version=9))
    store.put_resource(service(20))
    store.put_resource(service(19))
    assert store.children(KEY)[CONFIG_MAP, "chat-runtime"].version == 10
    assert store.resource(KEY)["metadata"]["resourceVersion"] == "20"


def test_the_end_of_a_predecessor_does_not_remove_the_successor():
    store = Store()
    store.put_child(child(version=10, uid="new"))
    store.drop_child(child(version=11, uid="old"))
    assert store.children(KEY)


def test_a_child_is_news_once_and_again_when_something_of_interest_changed():
    store = Store()
    assert store.put_child(child(version=10)) == {KEY}
    assert store.put_child(child(version=10)) == set()
    assert store.put_child(child(version=11)) == set()
    assert store.children(KEY)[CONFIG_MAP, "chat-runtime"].version == 11
    assert store.put_child(child(version=12, uid="another")) == {KEY}


def test_a_state_that_is_known_is_told_from_others_before_it_is_looked_at():
    store = Store()
    store.put_child(child(version=10))
    metadata = {"namespace": "team", "name": "chat-runtime", "resourceVersion": "10"}
    assert store.known(CONFIG_MAP, metadata)
    assert not store.known(CONFIG_MAP, {**metadata, "resourceVersion": "11"})
    assert not store.known(SECRET, metadata)
    store.drop_child(child(version=12))
    assert not store.known(CONFIG_MAP, metadata)


def test_a_resource_is_news_once_and_a_users_where_its_spec_is_new():
    store = Store()
    assert store.put_resource(service(10)) == (KEY, True)
    assert store.put_resource(service(10)) is None
    assert store.put_resource(service(11)) is None
    assert store.put_resource({**service(12), "status": {"replicas": 7}}) == (KEY, False)
    edited = service(13)
    edited["metadata"]["generation"] = 2
    assert store.put_resource(edited) == (KEY, True)
    going = service(14)
    going["metadata"].update(generation=2, deletionTimestamp="2030-01-01T00:00:00Z")
    assert store.put_resource(going) == (KEY, False)


OTHER = Key("team", "other")


def relabelled(version, to="other", *, owned=True):
    """The same object with the service's label edited."""
    manifest = plan().get(CONFIG_MAP, "chat-runtime").manifest
    metadata = {**manifest["metadata"], "labels": {**manifest["metadata"]["labels"], SERVICE: to}}
    if not owned:
        del metadata["ownerReferences"]
    return observe(CONFIG_MAP, applied({**manifest, "metadata": metadata}, version=version))


def test_an_edited_label_does_not_hide_a_child_from_its_owner():
    store = Store()
    store.put_child(child(version=10))
    before = store.children(KEY)[CONFIG_MAP, "chat-runtime"].digest
    assert store.put_child(relabelled(11)) == {KEY}
    assert store.children(KEY)[CONFIG_MAP, "chat-runtime"].digest != before
    assert not store.children(OTHER)


def test_a_child_without_owner_is_one_services_at_a_time():
    store = Store()
    assert store.put_child(relabelled(10, "chat", owned=False)) == {KEY}
    assert store.put_child(relabelled(11, owned=False)) == {KEY, OTHER}
    assert (len(store.children(KEY)), len(store.children(OTHER))) == (0, 1)
    assert store.put_child(relabelled(10, "chat", owned=False)) == set()
    assert store.drop_child(relabelled(12, "chat", owned=False)) == OTHER
    assert (len(store.children(KEY)), len(store.children(OTHER))) == (0, 0)
    store.put_child(relabelled(13, owned=False))
    assert store.keep_children(CONFIG_MAP, [], None, version=20) == {OTHER}


def test_a_list_removes_what_it_does_not_hold():
    store = Store()
    store.put_child(child(version=10))
    store.put_resource(service(10))
    assert store.keep_children(CONFIG_MAP, [], None, version=20) == {KEY}
    assert store.keep_resources([], None, version=20) == {KEY}
    assert (len(store), dict(store.children(KEY))) == (0, {})


def test_a_list_does_not_remove_what_is_younger_than_itself():
    store = Store()
    store.put_child(child(version=21))
    store.put_resource(service(21))
    assert store.keep_children(CONFIG_MAP, [], None, version=20) == set()
    assert store.keep_resources([], None, version=20) == set()


def test_a_list_of_one_namespace_or_kind_says_nothing_about_others():
    store = Store()
    store.put_child(child())
    store.put_resource(service(1))
    store.keep_children(CONFIG_MAP, [], "elsewhere", version=20)
    store.keep_children(SECRET, [], None, version=20)
    store.keep_resources([], "elsewhere", version=20)
    assert (len(store), len(store.children(KEY))) == (1, 1)
