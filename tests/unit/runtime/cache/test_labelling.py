"""Misses in doubt, shadow comparisons and clients' verdicts give an entry a threshold of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.conftest import until
from tests.unit.runtime.cache.conftest import Cache, Generator, build_request
from tests.unit.runtime.cache.embedders import WordBag

from ferry_api.runtime_config import CacheConfig, Verifier
from ferry_runtime.cache import leisure
from ferry_runtime.cache.control import CacheControl, Caller
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.local import Drop
from ferry_runtime.cache.semantic.verifier import Decision, Verdict
from ferry_runtime.cache.setup import build_cache
from ferry_runtime.errors import EmbedderUnavailable
from ferry_runtime.generation import CacheOutcome

FIRST = "How do I reset the password of my account?"
OTHERS = [f"How do I reset the password of my account, {word}?" for word in ("now", "then", "soon", "fast")]
OTHERS += [f"How do I reset the password of my own {word} account?" for word in ("new", "old", "big", "red")]
RIGHT, WRONG = ["You can do it ", "in the settings."], ["Bananas are yellow ", "and the sea is blue."]
SEMANTIC, MISS = CacheOutcome.SEMANTIC, CacheOutcome.MISS


@dataclass
class Scripted:
    """A verifier that says what the test wants of every pair."""

    decision: Decision = field(default_factory=lambda: Decision(Verdict.GREY, "score", 0.4))
    accept: float = 0.6
    grey: float = 0.05

    def decide(self, cosine: float, cached: str, asked: str) -> Decision:
        return self.decision

    def scores(self, score: float) -> None:
        self.decision = Decision(Verdict.ACCEPT if score >= self.accept else Verdict.GREY, "score", score)


@dataclass
class Service:
    cache: Cache
    control: CacheControl
    verifier: Scripted
    idle: bool = True

    async def ask(self, text: str, **changes: Any) -> tuple[CacheOutcome, str | None]:
        _, info = await self.cache.ask(build_request(text, **changes))
        await self.cache.layer.writer.drained()
        return info.outcome, info.entry_id

    async def settled(self) -> None:
        """Every pair in doubt has been looked at."""
        doubts = self.cache.layer.labeller._doubts
        await until(lambda: not doubts._wanted.is_set())

    async def doubt(self, text: str) -> CacheOutcome:
        """Ask, settle, and leave only the older entries to be found."""
        outcome, entry_id = await self.ask(text)
        await self.settled()
        if outcome is MISS:
            self.cache.layer.tiers.index.discard(entry_id)
        return outcome

    @property
    def labels(self) -> dict[str, int]:
        return self.cache.metrics.by_labels(self.cache.metrics.labels)

    def threshold(self, entry_id: str | None) -> float | None:
        return self.cache.layer.semantic.labels.threshold(entry_id, 0.0)


@pytest.fixture
async def service(monkeypatch) -> AsyncIterator[Service]:
    monkeypatch.setattr(leisure, "_LOOK_EVERY", 0.001)
    settings = {"enabled": True, "similarity_threshold": 0.5}
    model = [ServedModel(name="m", weights="w")]
    built = build_cache(
        namespace="svc",
        config=lambda: CacheConfig(**settings),
        model=lambda: model[0],
        queue_timeout=lambda: 60.0,
        idle=lambda: made.idle,
        embedder=WordBag(),
    )
    generator = Generator()
    generator.words = RIGHT
    cache = Cache(built.layer, generator, built.layer.metrics, settings, model)
    made = Service(cache, built.control, Scripted())
    built.layer.semantic._verifier = made.verifier
    built.layer.shadow._share = 0.0
    await built.layer.start()
    await built.layer.semantic.ready()
    yield made
    await built.layer.stop()


async def test_an_entry_whose_doubtful_neighbours_were_right_serves_the_next(service) -> None:
    _, first = await service.ask(FIRST)
    outcomes = [await service.doubt(other) for other in OTHERS]
    assert outcomes[0] is MISS
    assert outcomes[-1] is SEMANTIC
    assert service.threshold(first) < 0.41
    assert set(service.labels) == {"miss/same"}
    assert service.cache.metrics.by_labels(service.cache.metrics.learned)["accept"] >= 1


async def test_an_entry_whose_neighbours_were_wrong_is_stricter_than_the_verifier(service) -> None:
    _, first = await service.ask(FIRST)
    service.cache.generator.words = WRONG
    await service.doubt(OTHERS[0])
    assert service.labels == {"miss/different": 1}
    assert service.threshold(first) > 0.8
    service.verifier.scores(0.7)
    assert await service.doubt(OTHERS[1]) is MISS
    service.verifier.scores(0.99)
    assert (await service.ask(OTHERS[2]))[0] is SEMANTIC


async def test_labels_never_serve_what_a_rule_rejects_or_the_gate_keeps_out(service) -> None:
    _, first = await service.ask(FIRST)
    for other in OTHERS[:6]:
        await service.doubt(other)
    assert service.threshold(first) < 0.41
    service.verifier.decision = Decision(Verdict.REJECT, "negation")
    assert (await service.ask(OTHERS[6]))[0] is MISS
    service.verifier.scores(0.55)
    assert (await service.ask(OTHERS[7], cache_threshold=0.999))[0] is MISS


async def test_both_entries_of_a_compared_pair_are_labelled(service) -> None:
    _, first = await service.ask(FIRST)
    _, second = await service.ask(OTHERS[0])
    await service.settled()
    known = service.cache.layer.semantic.labels._known
    assert known[first].labels == known[second].labels != b""


async def test_nothing_is_compared_while_somebody_waits(service) -> None:
    await service.ask(FIRST)
    service.idle = False
    await service.ask(OTHERS[0])
    await asyncio.sleep(0.05)
    assert service.labels == {}
    service.idle = True
    await service.settled()
    assert service.labels == {"miss/same": 1}


async def test_what_the_judge_cannot_tell_labels_nothing(service) -> None:
    _, first = await service.ask(FIRST)
    service.cache.generator.words = ["You can not do it ", "in the settings."]
    await service.ask(OTHERS[0])
    await service.settled()
    assert service.labels == {"miss/unclear": 1}
    assert service.threshold(first) is None


@pytest.mark.parametrize("gone", ["candidate", "answer"])
async def test_a_pair_of_which_one_is_gone_is_dropped(service, gone: str) -> None:
    _, first = await service.ask(FIRST)
    service.idle = False
    _, second = await service.ask(OTHERS[0])
    service.cache.layer.tiers.local.drop({"candidate": first, "answer": second}[gone], Drop.PURGED)
    service.idle = True
    await service.settled()
    assert service.labels == {}


async def test_waiting_pairs_are_bounded_and_hold_no_text(service) -> None:
    service.idle = False
    await service.ask(FIRST)
    for number in range(230):
        await service.ask(f"{FIRST} {'x' * (number + 1)}")
    waiting = service.cache.layer.labeller._doubts._items
    assert len(waiting) == 200
    assert "password" not in repr(waiting)


async def test_an_answer_that_is_not_kept_labels_nothing(service) -> None:
    await service.ask(FIRST)
    await service.ask(OTHERS[0], cache_control=("no-store",))
    assert not service.cache.layer.labeller._doubts._items


async def test_plain_cosine_learns_nothing(service) -> None:
    service.cache.settings["verifier"] = Verifier.NONE
    await service.ask(FIRST)
    assert (await service.ask(OTHERS[0]))[0] is SEMANTIC
    assert not service.cache.layer.labeller._doubts._items


async def test_a_shadow_comparison_labels_the_entry_that_was_served(service) -> None:
    service.cache.layer.shadow._share = 1.0
    _, first = await service.ask(FIRST)
    service.verifier.scores(0.7)
    service.cache.generator.words = WRONG
    assert (await service.ask(OTHERS[0]))[0] is SEMANTIC
    await until(lambda: service.labels == {"shadow/different": 1})
    await until(lambda: (service.threshold(first) or 0) > 0.7)
    assert (await service.ask(OTHERS[1]))[0] is MISS


async def test_a_clients_verdict_labels_the_entry_and_outlasts_its_eviction(service) -> None:
    _, first = await service.ask(FIRST)
    service.verifier.scores(0.7)
    assert (await service.ask(OTHERS[0]))[0] is SEMANTIC
    await service.control.feedback(first, "wrong", Caller("a"))
    assert service.labels == {"feedback/different": 1}
    assert await service.ask(FIRST) == (MISS, first)
    assert service.threshold(first) > 0.7
    assert (await service.ask(OTHERS[1]))[0] is MISS


async def test_good_verdicts_lower_the_threshold(service) -> None:
    _, first = await service.ask(FIRST)
    service.verifier.scores(0.7)
    await service.ask(OTHERS[0])
    for _ in range(16):
        await service.control.feedback(first, "good", Caller("a"))
    assert service.threshold(first) < 0.6


async def test_a_verdict_on_an_answer_that_nobody_else_was_served_sets_no_threshold(service) -> None:
    _, first = await service.ask(FIRST)
    await service.control.feedback(first, "good", Caller("a"))
    assert service.threshold(first) is None


@pytest.mark.parametrize("scope", [{"tenant": "a"}, {"model": "m"}, {}])
async def test_a_purge_takes_the_labels_with_it(service, scope: dict[str, str]) -> None:
    _, first = await service.ask(FIRST)
    await service.ask(OTHERS[0])
    await service.settled()
    assert service.threshold(first) is not None
    await service.control.delete(Caller("ops", admin=True), **scope)
    assert service.threshold(first) is None


async def test_labels_of_one_tenant_do_not_move_anothers_threshold(service) -> None:
    _, ours = await service.ask(FIRST)
    _, theirs = await service.ask(FIRST, tenant="b")
    for other in OTHERS[:4]:
        await service.doubt(other)
    assert service.threshold(ours) < 0.6
    assert service.threshold(theirs) is None
    assert (await service.ask(OTHERS[5], tenant="b"))[0] is MISS


async def test_the_sum_is_shown_without_text(service) -> None:
    await service.ask(FIRST)
    await service.ask(OTHERS[0])
    await service.settled()
    shown = service.control.stats()
    assert shown["labels"]["found"] == {"miss/same": 1}
    assert "password" not in str(shown)


async def test_without_an_embedder_nothing_is_in_doubt(service) -> None:
    async def fail(texts: object) -> list[object]:
        raise EmbedderUnavailable("gone")

    await service.ask(FIRST)
    service.cache.layer.semantic._embedder.embed = fail
    await service.ask(OTHERS[0])
    assert not service.cache.layer.labeller._doubts._items
