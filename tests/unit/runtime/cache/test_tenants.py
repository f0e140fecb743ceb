"""No sequence of requests, orders and time lets a tenant see another tenant's text."""

import asyncio
import itertools
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.unit.runtime.cache.conftest import build_cache, build_request

from ferry_runtime.cache.messages import Scope
from ferry_runtime.generation import CacheOutcome

TTL = 20.0
TENANTS = st.sampled_from(["a", "b", "a/b", "A", ""])
TEXTS = st.sampled_from(["hello", "hello ", "bye"])


class Tenants(RuleBasedStateMachine):
    """Every generated answer names its tenant and a serial number; what comes back must be the
    asker's own, and no older than its time to live."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.cache = build_cache(ttl_seconds=TTL)
        self.loop.run_until_complete(self.cache.layer.start())
        self.numbers = itertools.count()
        self.now = 1_000_000.0
        self.made_at: dict[str, float] = {}
        self.clock = mock.patch("time.time", self._time)
        self.clock.start()

    def _time(self) -> float:
        return self.now

    def teardown(self) -> None:
        self.clock.stop()
        self.loop.run_until_complete(self.cache.layer.stop())
        self.loop.close()

    async def _ask(self, tenant: str, text: str, changes: dict[str, Any]) -> None:
        mark = f"[{tenant}] {next(self.numbers)}"
        self.cache.generator.words = [mark]
        answer, info = await self.cache.ask(build_request(text, tenant=tenant, **changes))
        assert answer.startswith(f"[{tenant}] ")
        if answer == mark:
            self.made_at[mark] = self.now
        else:
            assert info.outcome is CacheOutcome.EXACT
            assert self.now - self.made_at[answer] < TTL * 1.1

    @rule(tenant=TENANTS, text=TEXTS, temperature=st.sampled_from([0.0, 1.0]), n=st.integers(1, 2))
    def ask(self, tenant: str, text: str, temperature: float, n: int) -> None:
        changes = {"sampling": {"temperature": temperature}, "temperature_omitted": True, "n": n}
        self.loop.run_until_complete(self._ask(tenant, text, changes))

    @rule(first=TENANTS, second=TENANTS, text=TEXTS)
    def ask_together(self, first: str, second: str, text: str) -> None:
        async def both() -> list[tuple[str, Any]]:
            requests = [build_request(text, tenant=tenant) for tenant in (first, second)]
            self.cache.generator.words = ["(both)"]
            return await asyncio.gather(*(self.cache.ask(request) for request in requests))

        made = len(self.cache.generator.made)
        results = self.loop.run_until_complete(both())
        for (answer, _), tenant in zip(results, (first, second), strict=True):
            assert answer == "(both)" or answer.startswith(f"[{tenant}] ")
        if first != second and all(answer == "(both)" for answer, _ in results):
            fresh = [info.outcome for _, info in results].count(CacheOutcome.MISS)
            assert len(self.cache.generator.made) == made + fresh
        self.cache.layer.tiers.forget(Scope(tenant=first))
        self.cache.layer.tiers.forget(Scope(tenant=second))

    @rule(seconds=st.floats(0, 15))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(tenant=TENANTS)
    def purge(self, tenant: str) -> None:
        self.cache.layer.tiers.forget(Scope(tenant=tenant))
        assert tenant not in self.cache.layer.tiers.local.tenant_counts()


TestTenants = Tenants.TestCase
TestTenants.settings = settings(max_examples=40, deadline=None, stateful_step_count=30)
