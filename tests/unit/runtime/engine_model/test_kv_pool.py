"""Room for keys and values: never above the bound, nothing leaks, what is reused is right."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ferry_runtime.engine.model.contract import MIN_KEPT_TOKENS
from ferry_runtime.engine.model.kv.arena import Arena, KvShape
from ferry_runtime.engine.model.kv.pool import KvPool, common_prefix
from ferry_runtime.errors import CannotFit

SHAPE = KvShape(layers=2, kv_heads=1, head_dim=8, dtype=torch.float32)  # 64 bytes a row: 64 tokens a page
CONTEXT = 256
BLOCK = 16


def make_pool(
    *, slots: int = 3, blocks: int = 40, reuse_step: int = 1, saved_blocks: int | None = None
) -> KvPool:
    arena = Arena(SHAPE, slots, SHAPE.region_tokens(CONTEXT, 64), torch.device("cpu"))
    return KvPool(
        arena,
        blocks=blocks,
        block_tokens=BLOCK,
        context=CONTEXT,
        reuse_step=reuse_step,
        saved_blocks=saved_blocks,
    )


def content(tokens: Sequence[int], position: int) -> float:
    """What the row of a position must hold: it depends on every token up to it, as keys do."""
    return float(zlib.crc32(bytes(t % 256 for t in tokens[: position + 1])) % 9973 + 1)


def compute(pool: KvPool, sequence: int, tokens: Sequence[int], start: int, end: int) -> None:
    """Stand in for a step."""
    slot = pool.running(sequence).index
    pool.arena.touch(slot, end)
    for layer in pool.arena.layers:
        for position in range(start, end):
            layer[slot, position] = content(tokens, position)
    pool.extend(sequence, start, list(tokens[start:end]))


def row(pool: KvPool, sequence: int) -> list[float]:
    layers = pool.arena.layers
    index = pool.running(sequence).index
    values = layers[0][index, :, 0, 0, 0]
    for layer in layers:
        assert torch.equal(layer[index], values[:, None, None, None].expand_as(layer[index]))
    return values.tolist()


def check_row(pool: KvPool, sequence: int, tokens: Sequence[int], length: int) -> None:
    held = row(pool, sequence)
    assert held[:length] == [content(tokens, i) for i in range(length)]
    assert not any(held[length:]), "memory after the computed tokens must read as zero"


HEAD = list(range(60))


class PoolMachine(RuleBasedStateMachine):
    """Random admissions, steps and releases, on prompts that share heads."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = make_pool()
        self.watch_copies()
        self.ids = itertools.count()
        self.tokens: dict[int, list[int]] = {}
        self.prompts: dict[int, int] = {}

    def watch_copies(self) -> None:
        """While a prefix is copied out of its slot, both copies count."""
        pool, save = self.pool, self.pool.arena.save

        def watched(slot: int, tokens: int) -> torch.Tensor:
            assert pool.running_blocks + pool.kept_blocks + -(-tokens // BLOCK) <= pool.blocks
            return save(slot, tokens)

        pool.arena.save = watched  # type: ignore[method-assign]

    @rule(
        head=st.integers(0, len(HEAD)),
        tail=st.lists(st.integers(0, 2), max_size=70),
        answer=st.integers(1, 120),
        reuse=st.booleans(),
    )
    def admit(self, head: int, tail: list[int], answer: int, reuse: bool) -> None:
        prompt = [*HEAD[:head], *tail] or [1]
        sequence = next(self.ids)
        if len(prompt) + answer > CONTEXT:
            with pytest.raises(CannotFit):
                self.pool.admit(sequence, prompt, len(prompt) + answer, reuse=reuse)
            return
        needed = -(-(len(prompt) + answer) // BLOCK)
        fits = len(self.tokens) < 3 and self.pool.running_blocks + needed <= self.pool.blocks
        start = self.pool.admit(sequence, prompt, len(prompt) + answer, reuse=reuse)
        assert (start is not None) == fits, "kept prefixes never stand in the way of an admission"
        if start is not None:
            assert start < len(prompt)
            assert reuse or start == 0
            self.tokens[sequence] = [*prompt, *[7] * answer]
            self.prompts[sequence] = len(prompt)

    @precondition(lambda self: self.tokens)
    @rule(pick=st.integers(0, 2), count=st.integers(1, 60))
    def step(self, pick: int, count: int) -> None:
        sequence = list(self.tokens)[pick % len(self.tokens)]
        start = len(self.pool.running(sequence).tokens)
        tokens = self.tokens[sequence]
        compute(self.pool, sequence, tokens, start, min(start + count, len(tokens)))

    @precondition(lambda self: self.tokens)
    @rule(pick=st.integers(0, 2))
    def adopt(self, pick: int) -> None:
        sequence = list(self.tokens)[pick % len(self.tokens)]
        before = len(self.pool.running(sequence).tokens)
        after = self.pool.adopt(sequence)
        assert before <= after
        assert after == before or after < self.prompts[sequence]

    @precondition(lambda self: self.tokens)
    @rule(pick=st.integers(0, 2), keep=st.booleans())
    def release(self, pick: int, keep: bool) -> None:
        sequence = list(self.tokens)[pick % len(self.tokens)]
        computed = len(self.pool.running(sequence).tokens)
        tokens = self.tokens.pop(sequence)
        self.pool.release(sequence, tokens[:computed] if keep else ())

    @invariant()
    def stays_within_the_bound(self) -> None:
        assert self.pool.running_blocks + self.pool.kept_blocks <= self.pool.blocks

    @invariant()
    def rows_hold_what_was_computed_and_zeros(self) -> None:
        for sequence, tokens in self.tokens.items():
            held = self.pool.running(sequence).tokens
            assert tokens[: len(held)] == held
            check_row(self.pool, sequence, tokens, len(held))

    def teardown(self) -> None:
        for sequence in list(self.tokens):
            self.pool.release(sequence)
        self.pool.drop_kept()
        assert self.pool.running_blocks == self.pool.kept_blocks == 0
        assert not any(layer.any() for layer in self.pool.arena.layers)


TestPool = PoolMachine.TestCase
TestPool.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_a_full_pool_gives_up_kept_prefixes_oldest_first() -> None:
    pool = make_pool(slots=3, blocks=16)
    prompts = [[i] * 64 for i in range(3)]  # four blocks each, kept in the three slots
    for i, prompt in enumerate(prompts):
        pool.admit(i, prompt, 64)
        compute(pool, i, prompt, 0, 64)
    for i, prompt in enumerate(prompts):
        pool.release(i, prompt)
    assert pool.kept_blocks == 12
    assert pool.admit(9, [9] * 10, 128) == 0  # eight blocks: one of the three has to go
    assert pool.kept_blocks == 8
    assert pool.admit(10, [*prompts[2], 5], 65) == 64
    assert pool.admit(11, [*prompts[0], 5], 65) is None  # running sequences hold all that is left


def test_a_prefix_survives_the_reuse_of_its_slot() -> None:
    pool = make_pool(slots=1, blocks=40)
    first, second = [1] * 64, [2] * 64
    pool.admit(0, first, 70)
    compute(pool, 0, first, 0, 64)
    pool.release(0, first)
    pool.admit(1, second, 70)  # takes the only slot
    compute(pool, 1, second, 0, 64)
    pool.release(1, second)
    assert pool.admit(2, [*first, 3], 80) == 64
    check_row(pool, 2, first, 64)


def test_a_prefix_moves_out_of_its_slot_only_where_both_copies_fit() -> None:
    for blocks, kept in ((20, 0), (24, 8)):
        pool = make_pool(slots=2, blocks=blocks)
        for i in range(2):
            pool.admit(i, [i + 1] * 128, 128)
        compute(pool, 0, [1] * 128, 0, 128)
        pool.release(0, [1] * 128)
        assert pool.admit(2, [3] * 10, 64) == 0
        assert pool.kept_blocks == kept


def test_prefixes_beside_the_slots_have_a_bound_of_their_own() -> None:
    pool = make_pool(slots=1, blocks=40, saved_blocks=6)
    for i in range(3):  # each of four blocks: one fits beside the slot
        pool.admit(i, [i + 1] * 64, 64)
        compute(pool, i, [i + 1] * 64, 0, 64)
        pool.release(i, [i + 1] * 64)
    assert pool.kept_blocks == 8


def test_the_latest_prefixes_are_kept_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferry_runtime.engine.model.kv.pool.MAX_SAVED", 2)
    pool = make_pool(slots=1, blocks=100)
    prompts = [[i + 1] * 64 for i in range(5)]
    for i, prompt in enumerate(prompts):
        pool.admit(i, prompt, 64)
        compute(pool, i, prompt, 0, 64)
        pool.release(i, prompt)
    assert pool.kept_blocks == 12
    for i, expected in ((4, 64), (3, 64), (2, 64), (0, 0)):
        assert pool.admit(i, [*prompts[i], 0], 65) == expected
        pool.release(i)


def test_sequences_that_run_share_a_head() -> None:
    pool = make_pool()
    head = list(range(80))
    pool.admit(0, [*head, 100], 90)
    pool.admit(1, [*head, 101, 102], 90)  # nothing is computed yet
    compute(pool, 0, [*head, 100], 0, 81)
    assert pool.adopt(1) == 80
    check_row(pool, 1, [*head, 101], 80)
    assert pool.admit(2, [*head, 103], 90) == 80
    check_row(pool, 2, [*head, 103], 80)


def test_what_is_adopted_step_by_step_is_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, copied = make_pool(), 0
    copy = pool.arena.copy

    def counting(source: int, target: int, begin: int, end: int) -> None:
        nonlocal copied
        copied += end - begin
        copy(source, target, begin, end)

    monkeypatch.setattr(pool.arena, "copy", counting)
    prompt = list(range(200))
    pool.admit(0, prompt, 220)
    pool.admit(1, prompt, 220)
    for start in range(0, 200, 40):
        compute(pool, 0, prompt, start, start + 40)
        assert pool.adopt(1) == min(start + 40, 199)
    assert copied == 199
    check_row(pool, 1, prompt, 199)


def test_a_repeated_prompt_still_computes_its_last_token() -> None:
    pool = make_pool()
    prompt = list(range(50))
    pool.admit(0, prompt, 60)
    compute(pool, 0, prompt, 0, 50)
    pool.release(0, prompt)
    assert pool.admit(1, prompt, 60) == 49


def test_short_heads_are_not_kept() -> None:
    pool = make_pool()
    prompt = list(range(MIN_KEPT_TOKENS - 1))
    pool.admit(0, prompt, 60)
    compute(pool, 0, prompt, 0, len(prompt))
    pool.release(0, prompt)
    assert pool.kept_blocks == 0


def test_deterministic_prefixes_end_at_chunk_borders_and_hold_no_answer() -> None:
    pool = make_pool(reuse_step=64)
    prompt, answer = list(range(100)), [7] * 60
    tokens = prompt + answer
    pool.admit(0, prompt, 160)
    compute(pool, 0, tokens, 0, 160)
    assert pool.admit(1, [*tokens[:150], 5], 200) == 64  # from the running one: its answer is not reused
    pool.release(1)
    pool.release(0, tokens)
    assert pool.admit(2, [*tokens[:150], 5], 200) == 64
    assert pool.admit(3, prompt[:64], 70) == 0  # all of it would be reused, and a chunk is the least


def test_what_can_never_fit_is_told_apart_from_what_must_wait() -> None:
    pool = make_pool(slots=2, blocks=16)
    assert pool.admit(0, [1], 200) == 0
    assert pool.admit(1, [1], 100) is None
    with pytest.raises(CannotFit, match="room for 257 tokens"):
        pool.admit(2, [1], 257)
    pool.release(0)
    assert pool.admit(1, [1], 100) == 0


def test_slots_are_the_other_limit() -> None:
    pool = make_pool(slots=2)
    assert [pool.admit(i, [1], 8) for i in range(3)] == [0, 0, None]


@given(
    head=st.lists(st.integers(0, 3), max_size=300),
    a=st.lists(st.integers(0, 1), max_size=100),
    b=st.lists(st.integers(0, 1), max_size=100),
)
def test_common_prefix(head: list[int], a: list[int], b: list[int]) -> None:
    a, b = head + a, head + b
    expected = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert common_prefix(a, b) == expected
