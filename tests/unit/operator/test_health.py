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


def test_a_namespace_that_may_not_be_watched_is_neither_missing_nor_stale(health, clock):
    health.freshness.seen("/a")
    health.freshness.seen("/b")
    health.freshness.refused("/b")
    clock.now += 170
    health.freshness.seen("/a")
    clock.now += 20
    health.contact.made()
    assert health.ready() is None
    assert health.alive() is None
    health.freshness.seen("/b")
    clock.now += 181
    health.contact.made()
    assert "silent" in health.alive()


def test_without_any_namespace_it_is_not_ready(health):
    health.contact.made()
    for path in ("/a", "/b"):
        health.freshness.refused(path)
    assert "Role" in health.ready()
