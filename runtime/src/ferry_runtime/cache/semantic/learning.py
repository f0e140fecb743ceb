"""What the labels of one entry say about its next candidate: a threshold of its own.

The idea is vCache's (Schroeder et al., arXiv 2502.03771): whether an entry's answer fits is modelled
per entry as a logistic function of the score, and an answer is served only where the probability of
being wrong is within a bound. Labels of one entry are few, so its shift is not fitted but has a prior:

    P(right | score) = sigmoid(logit(score) + shift),   shift ~ Normal(0, SPREAD²)

Without labels the verifier's own operating point stands. Right labels lower the threshold, to where the
posterior's P(wrong) is at most MOST_WRONG and never into what the verifier rejects; wrong ones raise it, so
that what is served is no more probably wrong than what the verifier accepts of an unknown entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

# Log-odds by which entries differ. The likeliest value is 3.6 to 4.2 on fow-cache's pairs in many
# wordings (bench/cache_learning.py); the lower end believes labels less.
SPREAD = 3.5
MOST_WRONG = 0.1
NEVER = 1.01  # no score reaches it

_STEPS = 128
_SCORES: NDArray[np.float64] = (np.arange(_STEPS) + 0.5) / _STEPS
_SHIFTS: NDArray[np.float64] = np.linspace(-4 * SPREAD, 4 * SPREAD, 113)
_PRIOR: NDArray[np.float64] = np.exp(-0.5 * (_SHIFTS / SPREAD) ** 2)
# Row per score, column per shift.
_RIGHT: NDArray[np.float64] = 1 / (1 + np.exp(-(np.log(_SCORES / (1 - _SCORES))[:, None] + _SHIFTS)))


def step(score: float) -> int:
    """A score in the coarseness that labels are kept in: 0…127."""
    return min(_STEPS - 1, max(0, int(score * _STEPS)))


def wrong_probability(labels: Iterable[tuple[int, bool]]) -> NDArray[np.float64]:
    """By score step, for the next candidate of an entry with these labels (score step, right).
    Never grows with the score."""
    weight = _PRIOR.copy()
    for at, right in labels:
        weight *= _RIGHT[at] if right else 1 - _RIGHT[at]
    wrong: NDArray[np.float64] = 1 - _RIGHT @ (weight / weight.sum())
    return wrong


def threshold(labels: Iterable[tuple[int, bool]], accept: float, grey: float) -> float:
    """The lowest score at which this entry may answer; ``accept`` and ``grey`` are the verifier's."""
    wrong = wrong_probability(labels)
    at, unknown = step(accept), _unknown(step(accept))
    if wrong[at] > unknown + 1e-9:
        return max(accept, _first(wrong <= unknown))
    if wrong[at] <= MOST_WRONG:
        return min(accept, max(grey, _first(wrong <= MOST_WRONG)))
    return accept


@lru_cache(maxsize=8)
def _unknown(at: int) -> float:
    """How probably wrong an entry without labels is at this step."""
    return float(wrong_probability(())[at])


def _first(fits: NDArray[np.bool_]) -> float:
    """The score of the first step that fits."""
    found = int(np.argmax(fits))
    return math.ceil(100 * found / _STEPS) / 100 if fits[found] else NEVER
