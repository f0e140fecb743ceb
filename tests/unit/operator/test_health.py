"""Restarted only for what a restart heals; ready only when it knows what is going on."""

from __future__ import annotations

import pytest

from ferry_operator.handlers.freshness import Freshness
from ferry_operator.health import Contact, Health


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def health(clock):
    return Health(Freshness(clock), Contact(clock), watched=frozenset({"/a", "/b"}))


def test_not_ready_until_every_watch_is_open(health):
    health.contact.made()
    health.freshness.seen("/a")
    assert health.ready() is not None
    health.freshness.seen("/b")
    assert health.ready() is None


def test_an_unreachable_api_server_is_not_ready_but_alive(health, clock):
    health.contact.made()
    for path in ("/a", "/b"):
        health.freshness.seen(path)
    clock.now += 600
    assert health.ready() is not None
    assert health.alive() is None


def test_one_stale_watch_beside_an_answering_api_server_is_not_alive(health, clock):
    health.freshness.seen("/a")
    clock.now += 170
    health.freshness.seen("/b")
    health.contact.made()
    assert health.alive() is None
    clock.now += 11
    health.contact.made()
    assert "silent" in health.alive()


def test_before_the_first_watch_it_is_alive(health):
    health.contact.made()
    assert health.alive() is None


def test_the_watch_of_a_kind_that_went_away_does_not_count(health, clock):
    health.freshness.seen("/optional")
    clock.now += 500
    health.freshness.seen("/a")
    health.contact.made()
    assert health.alive() is None


_PODS_OF_A, _SECRETS_OF_A = "/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/secrets"
_PODS_OF_B, _SECRETS_OF_B = "/api/v1/namespaces/b/pods", "/api/v1/namespaces/b/secrets"


@pytest.fixture
def scoped(clock):
    watched = frozenset({_PODS_OF_A, _SECRETS_OF_A, _PODS_OF_B, _SECRETS_OF_B})
    made = Health(Freshness(clock), Contact(clock), watched)
    for path in watched:
        made.freshness.seen(path)
    made.contact.made()
    return made


def test_a_namespace_that_may_not_be_watched_is_neither_missing_nor_stale(scoped, clock):
    scoped.freshness.refused(_PODS_OF_B)
    scoped.freshness.refused(_SECRETS_OF_B)
    for _ in range(2):
        clock.now += 170
        scoped.freshness.seen(_PODS_OF_A)
        scoped.freshness.seen(_SECRETS_OF_A)
    scoped.contact.made()
    assert scoped.ready() is None
    assert scoped.alive() is None
    scoped.freshness.seen(_PODS_OF_B)
    clock.now += 181
    scoped.contact.made()
    assert "silent" in scoped.alive()


def test_a_namespace_is_open_when_all_of_it_may_be_watched(scoped):
    scoped.freshness.refused(_PODS_OF_A)
    assert scoped.ready() is None
    scoped.freshness.refused(_SECRETS_OF_B)
    assert "Role" in scoped.ready()
    scoped.freshness.seen(_SECRETS_OF_B)
    assert scoped.ready() is None
