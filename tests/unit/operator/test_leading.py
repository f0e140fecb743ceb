"""Taking stock: what may not be read in one namespace is no reason to leave the others alone."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.operator.samples import resource

from ferry_operator import leading
from ferry_operator.errors import ApiError, Forbidden, NotFound
from ferry_operator.kinds import CHILDREN, HTTP_ROUTE, INFERENCE_SERVICE, POD, SECRET
from ferry_operator.leading import Leader, Stock
from ferry_operator.metrics import Metrics
from ferry_operator.observing.store import Key, Store
from ferry_operator.reconciling.queue import KeyedQueue
from ferry_operator.scaling.autoscaler import Autoscaler
from ferry_operator.settings import Settings


class Lists:
    """An API server with one InferenceService in each namespace; `refusals` by kind and namespace."""

    def __init__(self, served=()):
        self.refusals = {}
        self.served = set(served)
        self.asked = []

    async def serves(self, kind):
        return kind in self.served

    async def pages(self, kind, namespace, label_selector):
        self.asked.append((kind, namespace))
        error = self.refusals.get((kind, namespace), self.refusals.get((None, namespace)))
        if error is not None:
            raise error("GET /", 403, "Forbidden", "no")
        found = []
        if kind == INFERENCE_SERVICE:
            made = resource()
            made["metadata"]["namespace"] = namespace or "anywhere"
            found = [made]
        yield 100, found


@pytest.fixture
def lists():
    return Lists()


def stock(lists, store, *namespaces, metrics=None):
    return Stock(lists, store, Settings(namespaces=namespaces), metrics or Metrics())


@pytest.mark.parametrize("refused", [None, INFERENCE_SERVICE, SECRET, POD], ids=str)
@pytest.mark.parametrize("gone", ["a", "b", "c"])
async def test_a_namespace_that_may_not_be_read_is_passed_by(lists, refused, gone):
    store, metrics = Store(), Metrics()
    lists.refusals[refused, gone] = Forbidden
    await stock(lists, store, "a", "b", "c", metrics=metrics).take()
    assert {key.namespace for key in store} == {"a", "b", "c"} - {gone}
    assert metrics.registry.get_sample_value("ferry_operator_closed_namespaces") == 1.0


async def test_a_namespace_is_told_of_once_and_taken_up_again_when_it_is_back(lists, caplog):
    store, metrics = Store(), Metrics()
    taken = stock(lists, store, "a", "b", metrics=metrics)
    lists.refusals[None, "b"] = Forbidden
    for _ in range(3):
        await taken.take()
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
    lists.refusals.clear()
    await taken.take()
    assert Key("b", "chat") in set(store)
    assert metrics.registry.get_sample_value("ferry_operator_closed_namespaces") == 0.0


async def test_a_refusal_of_the_whole_cluster_is_an_error(lists):
    lists.refusals[None, None] = Forbidden
    with pytest.raises(Forbidden):
        await stock(lists, Store()).take()


async def test_a_server_that_does_not_answer_is_an_error_whatever_the_scope(lists):
    lists.refusals[None, "a"] = ApiError
    with pytest.raises(ApiError):
        await stock(lists, Store(), "a", "b").take()


async def test_an_optional_kind_that_goes_meanwhile_is_no_error():
    lists = Lists(served=[HTTP_ROUTE])
    lists.refusals[HTTP_ROUTE, "a"] = NotFound
    store = Store()
    taken = stock(lists, store, "a", "b")
    await taken.take()
    assert taken.served == frozenset()
    assert {key.namespace for key in store} == {"a", "b"}
    assert (HTTP_ROUTE, "b") not in lists.asked


class Watches:
    def __init__(self):
        self.relisted = asyncio.Event()


class Round:
    """Stock that is taken as often as it is asked for; a watch begins anew during the rounds in `during`."""

    def __init__(self, watches, during):
        self.watches = watches
        self.during = during
        self.taken = 0
        self.enough = asyncio.Event()

    async def take(self):
        self.taken += 1
        await asyncio.sleep(0)
        if self.taken in self.during:
            self.watches.relisted.set()
        if self.taken > max(self.during):
            self.enough.set()


@pytest.mark.parametrize("during", [{1}, {1, 2}], ids=str)
async def test_a_watch_that_begins_anew_while_stock_is_taken_is_not_missed(monkeypatch, during):
    monkeypatch.setattr(leading, "_GATHER", 0.001)
    watches, metrics, store = Watches(), Metrics(), Store()
    rounds = Round(watches, during)
    leader = Leader(
        stock=rounds,
        store=store,
        queue=KeyedQueue(metrics),
        reconciler=None,
        watcher=watches,
        settings=Settings(resync_seconds=3600.0),
        metrics=metrics,
        autoscaler=Autoscaler(None, store, metrics=metrics, every=3600.0, reporter="test"),
    )
    leads = asyncio.create_task(leader.lead())
    try:
        await asyncio.wait_for(rounds.enough.wait(), 10)
    finally:
        leads.cancel()
        await asyncio.gather(leads, return_exceptions=True)


async def test_every_kind_that_is_served_is_listed_in_every_namespace():
    lists = Lists(served=[HTTP_ROUTE])
    await stock(lists, Store(), "a", "b").take()
    optional = {kind for kind in CHILDREN if kind.group == "monitoring.coreos.com"}
    for namespace in ("a", "b"):
        listed = {kind for kind, where in lists.asked if where == namespace}
        assert listed == {*CHILDREN, INFERENCE_SERVICE} - optional
