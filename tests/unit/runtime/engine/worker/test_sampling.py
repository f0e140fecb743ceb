"""Choosing tokens: exactly the distribution that the parameters define, row by row.

Where chance is involved, the random number runs over a fine grid instead: the share of the grid
that picks a token is its probability, up to the grid's width.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from ferry_runtime.engine.protocol import SamplingParams
from ferry_runtime.engine.worker.sampling import RowSampler, choose_tokens, token_logprobs
from ferry_runtime.engine.worker.sampling.on_device import choose as choose_on_device

# Both ways run here: the accelerator's operations exist on the processor too.
Choose = Callable[[torch.Tensor, list[RowSampler]], list[int | None]]


def on_cpu(logits: torch.Tensor, rows: list[RowSampler]) -> list[int | None]:
    return choose_tokens(logits.split(1), rows)


@pytest.fixture(params=[on_cpu, choose_on_device], ids=["cpu", "device"])
def choose(request: pytest.FixtureRequest) -> Choose:
    return request.param


VOCAB = 1000
GRID = 2000
CPU = torch.device("cpu")


def logits_like_a_model(seed: int, rows: int = 1, spread: float = 3.0) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * spread


def row(prompt: tuple[int, ...] = (), eos: tuple[int, ...] = (), **sampling: Any) -> RowSampler:
    return RowSampler(SamplingParams(**{"max_tokens": 100, **sampling}), prompt, eos, CPU)


class AtPoint(RowSampler):
    """Draws a given number."""

    def __init__(self, point: float, **sampling: Any) -> None:
        super().__init__(SamplingParams(max_tokens=100, **sampling), (), (), CPU)
        self.point = point

    def draw(self) -> float:
        return self.point


def distribution(choose: Choose, logits: torch.Tensor, **sampling: Any) -> torch.Tensor:
    """Probabilities [VOCAB] that ``choose`` realises for one row of logits."""
    counts: Counter[int | None] = Counter()
    points = [(step + 0.5) / GRID for step in range(GRID)]
    for start in range(0, GRID, 500):
        rows = [AtPoint(point, **sampling) for point in points[start : start + 500]]
        counts.update(choose(logits.expand(len(rows), -1), rows))
    found = torch.zeros(VOCAB)
    for token_id, count in counts.items():
        assert token_id is not None
        found[token_id] = count / GRID
    return found


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 1.0},
        {"temperature": 0.7},
        {"temperature": 1.5, "top_k": 7},
        {"temperature": 1.0, "top_k": 900},
        {"temperature": 1.0, "top_k": VOCAB + 5},
        {"temperature": 0.9, "top_p": 0.8},
        {"temperature": 3.0, "top_p": 0.95},
        {"temperature": 1.0, "top_p": 1e-9},
        {"temperature": 1.0, "top_k": 50, "top_p": 0.6},
        {"temperature": 2.0, "top_k": 900, "top_p": 0.9},
        {"temperature": 1.0, "min_p": 0.1},
        {"temperature": 1.3, "min_p": 0.02, "top_k": 40, "top_p": 0.9},
        {"temperature": 1.3, "min_p": 0.001, "top_p": 0.9},
    ],
    ids=str,
)
def test_the_distribution_is_that_of_transformers(choose: Choose, sampling: dict[str, Any]) -> None:
    logits = logits_like_a_model(1)
    steps = LogitsProcessorList([TemperatureLogitsWarper(sampling["temperature"])])
    if "min_p" in sampling:
        steps.append(MinPLogitsWarper(sampling["min_p"]))
    if "top_k" in sampling:
        steps.append(TopKLogitsWarper(min(sampling["top_k"], VOCAB)))
    if "top_p" in sampling:
        steps.append(TopPLogitsWarper(sampling["top_p"]))
    expected = steps(torch.zeros(1, 1, dtype=torch.long), logits.clone()).softmax(-1)[0]
    found = distribution(choose, logits, **sampling)
    assert (found - expected).abs().max() <= 1.5 / GRID
    assert not found[expected == 0].any()


def test_greedy_rows_take_the_likeliest_token(choose: Choose) -> None:
    logits = logits_like_a_model(2, rows=5)
    rows = [row(temperature=0.0) for _ in range(5)]
    assert choose(logits, rows) == logits.argmax(-1).tolist()


def test_top_k_of_one_is_greedy_at_any_temperature(choose: Choose) -> None:
    logits = logits_like_a_model(3)
    assert choose(logits, [row(temperature=5.0, top_k=1)]) == logits.argmax(-1).tolist()


def test_the_logits_are_left_as_they_are(choose: Choose) -> None:
    logits = logits_like_a_model(4, rows=2)
    before = logits.clone()
    penalised = row((1, 2), temperature=0.0, repetition_penalty=1.3, logit_bias={5: 100.0})
    choose(logits, [penalised, row(temperature=0.8, top_p=0.5, seed=1)])
    assert torch.equal(logits, before)


def tokens_of(choose: Choose, samplers: list[RowSampler], watched: int, steps: int = 40) -> list[int]:
    """What the watched row generates; each row has its own logits, the same in every call."""
    chosen = []
    for step in range(steps):
        rows = torch.cat([logits_like_a_model(1000 * rank + step) for rank in range(len(samplers))])
        tokens = choose(rows, samplers)
        for sampler, token in zip(samplers, tokens, strict=True):
            assert token is not None
            sampler.record(token)
        chosen.append(tokens[watched])
    assert all(token is not None for token in chosen)
    return [token for token in chosen if token is not None]


NEIGHBOURS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 1.2, "seed": 17},
    {"temperature": 0.9, "top_k": 3},
    {"temperature": 0.9, "top_p": 0.4, "frequency_penalty": 1.0},
    {"temperature": 0.0, "repetition_penalty": 1.5, "logit_bias": {3: 5.0}},
]


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0.9, "seed": 17},
        {"temperature": 0.9, "seed": 17, "top_p": 0.9},
        {"temperature": 0.9, "seed": 17, "top_k": 20, "presence_penalty": 0.5},
        {"temperature": 0.0},
        {"temperature": 0.0, "repetition_penalty": 1.2},
    ],
    ids=str,
)
def test_a_row_is_the_same_alone_and_beside_any_neighbours(choose: Choose, sampling: dict[str, Any]) -> None:
    alone = tokens_of(choose, [row(**sampling)], 0)
    for number in range(len(NEIGHBOURS)):
        others = [row(**NEIGHBOURS[(number + other) % len(NEIGHBOURS)]) for other in range(3)]
        assert tokens_of(choose, [row(**sampling), *others], 0) == alone


def test_seeds_decide_and_without_one_rows_differ(choose: Choose) -> None:
    logits = torch.zeros(1, VOCAB)

    def generate(**sampling: Any) -> list[int | None]:
        sampler = row(**sampling)
        return [choose(logits, [sampler])[0] for _ in range(8)]

    assert generate(seed=1) == generate(seed=1)
    assert generate(seed=1) != generate(seed=2)
    assert generate(seed=1) != generate(seed=-1)
    assert generate(seed=2**70) == generate(seed=2**70)
    assert generate() != generate()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_row_whose_logits_are_not_finite_fails_alone(choose: Choose, bad: float) -> None:
    logits = logits_like_a_model(5, rows=3)
    expected = choose(logits, [row(temperature=0.0), row(seed=1), row(seed=1)])
    logits[1, 7] = bad
    tokens = choose(logits, [row(temperature=0.0), row(seed=1), row(seed=1)])
    assert tokens == [expected[0], None, expected[2]]


def test_a_row_without_any_possible_token_fails_alone(choose: Choose) -> None:
    logits = logits_like_a_model(5, rows=2)
    logits[0] = -torch.inf
    assert choose(logits, [row(temperature=0.0), row(temperature=0.0)])[0] is None


def test_impossible_tokens_are_never_drawn(choose: Choose) -> None:
    logits = torch.full((1, VOCAB), -torch.inf)
    logits[0, [5, 900]] = 0.0
    assert set(distribution(choose, logits).nonzero().flatten().tolist()) == {5, 900}


@settings(deadline=None, max_examples=30)
@given(
    prompt=st.lists(st.integers(0, 40), max_size=30),
    output=st.lists(st.integers(0, 40), max_size=200),
    repetition=st.sampled_from([1.0, 1.3, 0.8]),
    presence=st.sampled_from([0.0, 0.7, -0.5]),
    frequency=st.sampled_from([0.0, 0.3]),
)
def test_penalties_follow_their_definitions(
    prompt: list[int], output: list[int], repetition: float, presence: float, frequency: float
) -> None:
    logits = logits_like_a_model(6)
    seen = torch.tensor([[*prompt, *output]], dtype=torch.long)
    expected = logits.clone()
    if seen.numel():
        expected = RepetitionPenaltyLogitsProcessor(repetition)(seen, expected)
    for token_id, count in Counter(output).items():
        expected[0, token_id] -= presence + frequency * count
    sampler = row(
        tuple(prompt),
        repetition_penalty=repetition,
        presence_penalty=presence,
        frequency_penalty=frequency,
    )
    for token_id in output:
        sampler.record(token_id)
    edited = logits.clone()
    if sampler.edits:
        sampler.edit(edited[0])
    torch.testing.assert_close(edited, expected)


def test_a_bias_of_100_forces_and_of_minus_100_bans(choose: Choose) -> None:
    logits = logits_like_a_model(7)
    best = int(logits.argmax())
    assert choose(logits, [row(temperature=0.0, logit_bias={11: 100.0})]) == [11]
    assert choose(logits, [row(temperature=0.0, logit_bias={best: -100.0})]) != [best]


def test_ends_are_suppressed_until_min_tokens_are_out(choose: Choose) -> None:
    logits = torch.zeros(1, VOCAB)
    logits[0, 4], logits[0, 9] = 20.0, 10.0
    sampler = row(eos=(4,), temperature=0.0, min_tokens=2, stop_token_ids=(9,), logit_bias={4: 50.0})
    chosen = []
    for _ in range(3):
        (token,) = choose(logits, [sampler])
        assert token is not None
        sampler.record(token)
        chosen.append(token)
    assert chosen[2] == 4
    assert not {4, 9} & set(chosen[:2])


def test_logprobs_are_those_of_the_model() -> None:
    logits = logits_like_a_model(8, rows=3)
    expected = logits.log_softmax(-1)
    rows = token_logprobs(logits, [5, 6, 7], [0, 2, 5])
    assert [len(found.top) for found in rows] == [0, 2, 5]
    for rank, found in enumerate(rows):
        assert found.chosen == pytest.approx(expected[rank, 5 + rank].item(), abs=1e-5)
        values, ids = expected[rank].topk(len(found.top))
        assert [token_id for token_id, _ in found.top] == ids.tolist()
        assert [value for _, value in found.top] == pytest.approx(values.tolist(), abs=1e-5)


def test_the_logprob_of_an_impossible_token_is_finite() -> None:
    logits = torch.full((1, 4), -torch.inf)
    logits[0, 2] = 0.0
    (found,) = token_logprobs(logits, [0], [4])
    assert found.chosen == -9999.0
    assert sorted(value for _, value in found.top) == [-9999.0, -9999.0, -9999.0, 0.0]


def test_many_rows_of_logprobs_equal_few() -> None:
    logits = logits_like_a_model(9, rows=150)
    ids = list(range(150))
    whole = token_logprobs(logits, ids, [2] * 150)
    assert whole[149] == token_logprobs(logits[149:], ids[149:], [2])[0]
