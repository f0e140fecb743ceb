"""Embedders that a test writes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass
class Embedding:
    vector: bytes | None


@dataclass
class Loaded:
    fingerprint: str = "minilm"


class WordBag:
    """Texts that share words have near vectors, as with a real embedder."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fail: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def load(self) -> Loaded:
        if self.fail is not None:
            raise self.fail
        return Loaded()

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        self.calls.extend(texts)
        await self.gate.wait()
        if self.fail is not None:
            raise self.fail
        return [Embedding(None if len(text) > 500 else self._vector(text)) for text in texts]

    def _vector(self, text: str) -> bytes:
        total = np.zeros(384, dtype=np.float32)
        for word in text.lower().split():
            seed = sum(ord(letter) * 31**place for place, letter in enumerate(word))
            total += np.random.default_rng(seed % 2**32).standard_normal(384).astype(np.float32)
        return (total / np.linalg.norm(total)).astype("<f4").tobytes()
