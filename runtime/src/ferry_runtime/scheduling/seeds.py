"""One seed per choice, from the seed of the request."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from ferry_runtime.engine.protocol import SamplingParams


def sampling_of(params: SamplingParams, index: int) -> SamplingParams:
    """The parameters of choice ``index``; choice 0 keeps the request's own seed.

    Hashed, not counted up: otherwise choice 1 of seed 7 would be choice 0 of seed 8. Unseeded
    requests stay unseeded: the engine draws a fresh seed for each sequence.
    """
    if params.seed is None or index == 0:
        return params
    digest = blake2b(f"{params.seed}:{index}".encode(), digest_size=8).digest()
    return msgspec.structs.replace(params, seed=int.from_bytes(digest, "big") >> 1)
