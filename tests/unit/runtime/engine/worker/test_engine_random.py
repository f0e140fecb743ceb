"""Whatever clients do, and whenever."""

import functools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .bench import REQUESTS, Bench
from .kinds import Kind


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), numerics=st.sampled_from(["Fast", "Deterministic"]))
def test_whatever_happens_each_request_ends_once_with_its_own_tokens(
    byte_kind: Kind, data: st.DataObject, numerics: str
) -> None:
    b = Bench(byte_kind, slots=2, numerics=numerics, chunk_tokens=16, blocks=60)
    names = list(REQUESTS)
    cancelled: set[str] = set()
    asked: list[str] = []
    paused: set[str] = set()
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["ask", "step", "step", "cancel", "pause", "resume"]))
        if action == "ask" and len(asked) < len(names):
            name = names[len(asked)]
            asked.append(name)
            b.ask(name, **REQUESTS[name])
        elif action == "step":
            b.step()
        elif asked and action != "ask":
            name = data.draw(st.sampled_from(asked))
            getattr(b.engine, action)(name)
            if action == "cancel":
                cancelled.add(name)
            paused = {*paused, name} if action == "pause" else paused - {name}
    for name in paused:
        b.engine.resume(name)
    b.finish()
    assert not b.failures
    assert b.runner.blocks_used == 0
    for name in asked:
        ends = [delta for delta in b.deltas.get(name, []) if delta.finish_reason is not None]
        assert len(ends) == 1 or (name in cancelled and not ends)
        if ends:
            assert b.tokens(name) == _solo(byte_kind, name, numerics)


@functools.cache
def _solo(kind: Kind, name: str, numerics: str) -> list[int]:
    solo = Bench(kind, numerics=numerics, chunk_tokens=16)
    solo.ask(name, **REQUESTS[name])
    solo.finish()
    return solo.tokens(name)
