"""Pairs of questions for the cache's verifier: the labelled ones of fow-cache (CC BY 4.0, Mabon ap
Gwyn), and pairs made from questions by changes whose effect is known."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ferry_runtime.cache.semantic import lexicon


@dataclass(frozen=True, slots=True)
class Pair:
    cached: str
    asked: str
    same: bool
    kind: str
    group: int = -1  # pairs that share a question, directly or through others, share a group


def data_folder() -> Path:
    """Of the installed package fow-cache, or FOW_CACHE_DATA."""
    if folder := os.environ.get("FOW_CACHE_DATA"):
        return Path(folder)
    spec = importlib.util.find_spec("fow_cache")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("Install the package fow-cache (its data are the benchmark).")
    return Path(next(iter(spec.submodule_search_locations))) / "data"


class Groups:
    """Groups of texts, from the pairs that belong together."""

    def __init__(self) -> None:
        self._leader: dict[str, str] = {}

    def find(self, text: str) -> str:
        """The text that stands for its group."""
        self._leader.setdefault(text, text)
        while self._leader[text] != text:
            text = self._leader[text]
        return text

    def join(self, one: str, other: str) -> None:
        self._leader[self.find(one)] = self.find(other)


def labelled_pairs() -> list[Pair]:
    lines = (data_folder() / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    items = [json.loads(line) for line in lines if line.strip()]
    linked = Groups()
    for item in items:
        linked.join(item["a"], item["b"])
    numbers = {text: number for number, text in enumerate(sorted({linked.find(item["a"]) for item in items}))}
    return [
        Pair(item["a"], item["b"], item["same_answer"], item["category"], numbers[linked.find(item["a"])])
        for item in items
    ]


def conversations() -> list[dict[str, object]]:
    """Pairs of chats whose last user texts match: keys id, same_answer, a and b (messages)."""
    files = [*sorted((data_folder() / "conv-parts").glob("*.jsonl"))]
    files += sorted((data_folder() / "conv-long").glob("*.jsonl"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines if line.strip()]


OPENINGS = ("Hi, ", "Hello, ", "Quick question: ", "Could you tell me, ", "Please, ", "So, ")
SAME_START = (("How do I ", "How can I "), ("How can I ", "How do I "), ("What is ", "What's "),
               ("Can I ", "Am I able to "), ("When does ", "At what time does "))  # fmt: skip


def altered(questions: list[str], seed: int) -> list[Pair]:
    """Same-answer and other-answer versions of questions, as many as a change applies to."""
    draw = random.Random(seed)
    names = sorted({name for text in questions for name in _names(text)})
    made: list[Pair] = []
    for text in questions:
        made.append(Pair(text, draw.choice(OPENINGS) + text[0].lower() + text[1:], True, "opening"))
        made.append(Pair(text, slip(text.lower().rstrip("?!."), draw), True, "slip"))
        for start, instead in SAME_START:
            if text.startswith(start):
                made.append(Pair(text, instead + text[len(start) :], True, "start"))
        made.extend(_other_answers(text, names, draw))
    return made


def _other_answers(text: str, names: list[str], draw: random.Random) -> list[Pair]:
    found = []
    number = re.search(r"\d+", text)
    if number:
        changed = str(int(number[0]) + draw.choice((1, 2, 5, 10)))
        found.append((text.replace(number[0], changed, 1), "number"))
    negated = re.sub(r"^(Can|Do|Does|Is|Are|Should|Will) (\w+) ", r"\1 \2 not ", text)
    if negated != text:
        found.append((negated, "negation"))
    for word in text.rstrip("?").split():
        others = [pair - {word.lower()} for pair in lexicon.OPPOSITES if word.lower() in pair]
        if others:
            found.append((text.replace(word, min(min(others, key=sorted)), 1), "opposite"))
            break
    own = _names(text)
    if own and len(names) > 2:
        instead = draw.choice([name for name in names if name not in own])
        found.append((text.replace(draw.choice(own), instead, 1), "name"))
    return [Pair(text, other, False, kind) for other, kind in found if other != text]


def _names(text: str) -> list[str]:
    inside = re.findall(r"(?<=\w )[A-Z][a-z]{2,}", text)
    return [name for name in inside if name.lower() not in lexicon.FILLERS]


def slip(text: str, draw: random.Random) -> str:
    """Two letters of one longer word change places."""
    long = [word for word in text.split() if len(word) >= 6 and word.isalpha()]
    if not long:
        return text
    word = draw.choice(long)
    at = draw.randrange(1, len(word) - 2)
    return text.replace(word, word[:at] + word[at + 1] + word[at] + word[at + 2 :], 1)


def embed(texts: list[str], folder: Path) -> dict[str, np.ndarray]:
    """Unit vectors by text, from the served embedder's own files."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    unique = sorted(set(texts))
    vectors = model.encode(unique, normalize_embeddings=True, batch_size=32, show_progress_bar=False)
    return dict(zip(unique, np.asarray(vectors, dtype=np.float32), strict=True))
