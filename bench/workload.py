"""Seeded requests of mixed sizes, half of them sampled, no two with a common head."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

_WORDS = (Path(__file__).parent / "words.txt").read_text().split()


@dataclass(frozen=True, slots=True)
class Work:
    """One completion to produce: exactly ``max_tokens`` tokens, since end-of-sequence is ignored."""

    prompt: str
    max_tokens: int
    temperature: float
    seed: int

    def body(self, model: str) -> dict[str, object]:
        return {
            "model": model,
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": 0.95 if self.temperature else 1.0,
            "seed": self.seed,
            "ignore_eos": True,
        }


def mixed(count: int, seed: int) -> list[Work]:
    """Prompts of about 10 to 300 tokens, answers of 16 to 96 tokens, every second one sampled."""
    rng = random.Random(seed)
    works = []
    for index in range(count):
        prompt = words(rng, int(10 * (30 ** rng.random())))
        works.append(Work(prompt, rng.randint(16, 96), 0.8 if index % 2 else 0.0, seed=rng.randrange(2**31)))
    return works


def words(rng: random.Random, count: int) -> str:
    """Common words behind a number, so that no two prompts begin alike."""
    return f"{rng.randrange(10**6)} " + " ".join(rng.choice(_WORDS) for _ in range(count))
