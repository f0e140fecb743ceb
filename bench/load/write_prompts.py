"""Writes scripts/prompts.json: questions that no semantic cache may take for one another.

    python -m bench.load.write_prompts

The load scenarios count on it: a "new" question must be new to every cache whose threshold is 0.80,
or the peer with the looser cache would do less work. Questions are taken in a seeded order, each only if
its embedding stays below `MOST_ALIKE` with all that were taken before.
"""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import numpy as np

from bench.cache_data import embed
from ferry_runtime.embedding.location import embedder_directory

PROMPTS = Path(__file__).parent / "scripts" / "prompts.json"
MOST_ALIKE = 0.72
COUNT = 700

_SUBJECTS = (Path(__file__).parent / "subjects.txt").read_text().splitlines()
_FORMS = (
    "How does {} work?",
    "Tell me the history of {}.",
    "Why is {} important?",
    "What should a beginner know about {}?",
    "Write a short story about {}.",
    "What are common mistakes concerning {}?",
    "Explain {} to a child.",
    "What does {} cost, and why?",
    "Name three surprising facts about {}.",
    "How would one draw {}?",
    "Write a poem of four lines on {}.",
    "What could replace {} in a hundred years?",
)


def choose(questions: list[str], vectors: dict[str, np.ndarray], count: int) -> list[str]:
    """The first ``count`` questions whose cosine with each one taken before is below `MOST_ALIKE`."""
    taken: list[str] = []
    matrix = np.empty((0, len(next(iter(vectors.values())))), dtype=np.float32)
    for question in questions:
        if (matrix @ vectors[question] < MOST_ALIKE).all():
            taken.append(question)
            matrix = np.vstack((matrix, vectors[question]))
        if len(taken) == count:
            return taken
    raise SystemExit(f"Only {len(taken)} of {count} questions are different enough.")


def main() -> None:
    questions = [form.format(subject) for form, subject in itertools.product(_FORMS, _SUBJECTS)]
    random.Random(1).shuffle(questions)
    chosen = choose(questions, embed(questions, embedder_directory()), COUNT)
    PROMPTS.write_text(json.dumps(chosen, indent=0) + "\n")
    print(f"written: {PROMPTS}, {len(chosen)} questions")


if __name__ == "__main__":
    main()
