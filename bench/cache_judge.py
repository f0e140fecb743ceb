"""Does the judge of `ferry_runtime.cache.judging` agree with labels? On the texts of fow-cache.

Answers: the assistant's turns in its chats. Where a pair of chats of one turn each is the same one reworded
or chattier, the two turns say the same; where the context or a detail is swapped, an offer is another, or the
history is about something else, they do not; of longer chats the last turn that differs is taken, for
swaps and other offers. A turn that ends with a question asks back and answers nothing ("How can I help?"), so
the first figures leave those out. Texts: the 600 labelled pairs of questions, which come without answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cache_data import conversations, embed, labelled_pairs
from bench.environment import read_environment
from bench.report import Report
from ferry_runtime.cache.judging import Verdict, verdict_of
from ferry_runtime.cache.shadow import wilson
from ferry_runtime.embedding.location import embedder_directory

_SAME = ("same_context_reworded", "same_context_extra_chatter")
_SWAPPED = ("context_swap", "detail_swap", "intent_flip")


@dataclass(frozen=True, slots=True)
class Told:
    """Two texts, and whether they say the same."""

    one: str
    other: str
    same: bool
    kind: str


def run(results: Path) -> None:
    report = Report("cache_judge", read_environment())
    every = answers()
    plain = [item for item in every if not (_asks_back(item.one) or _asks_back(item.other))]
    for name, told in (("answers", plain), ("answers and questions back", every), ("texts", texts())):
        vectors = embed([text for item in told for text in (item.one, item.other)], embedder_directory())
        verdicts = [verdict_of(float(vectors[t.one] @ vectors[t.other]), t.one, t.other) for t in told]
        for line, value in agreement(told, verdicts):
            report.fact(f"{name}: {line}", value)
        report.section(f"{name.capitalize()}, by kind", _by_kind(told, verdicts))
    report.write(results)


def answers() -> list[Told]:
    found = []
    for chat in conversations():
        turns = [_assistant(chat[side]) for side in ("a", "b")]
        kind, short = str(chat["subtype"]), len(turns[0]) == len(turns[1]) == 1
        if not short and (kind not in _SWAPPED or len(turns[0]) != len(turns[1])):
            continue
        differing = [pair for pair in zip(*turns, strict=True) if pair[0] != pair[1]]
        if differing:
            found.append(Told(*differing[-1], kind in _SAME, kind))
    return found


def texts() -> list[Told]:
    return [Told(pair.cached, pair.asked, pair.same, pair.kind) for pair in labelled_pairs()]


def agreement(told: Sequence[Told], verdicts: Sequence[Verdict]) -> list[tuple[str, str]]:
    """Of what labels an entry (same or different), the share that is right; and how much is left open."""
    pairs = list(zip(told, verdicts, strict=True))
    decided = [(item, verdict) for item, verdict in pairs if verdict is not Verdict.UNCLEAR]
    agreed = sum(item.same == (verdict is Verdict.SAME) for item, verdict in decided)
    called = {one: [item.same for item, verdict in pairs if verdict is one] for one in Verdict}
    return [
        ("pairs", f"{len(pairs)}, {sum(item.same for item in told)} of which say the same"),
        ("decided", _share(len(decided), len(pairs))),
        ("agrees with the label where it decides", _share(agreed, len(decided))),
        ("right where it says same", _share(sum(called[Verdict.SAME]), len(called[Verdict.SAME]))),
        ("right where it says different",
         _share(called[Verdict.DIFFERENT].count(False), len(called[Verdict.DIFFERENT]))),
        ("pairs that say the same, called different",
         _share(sum(called[Verdict.DIFFERENT]), sum(item.same for item in told))),
        ("pairs that do not, called same",
         _share(called[Verdict.SAME].count(False), sum(not item.same for item in told))),
    ]  # fmt: skip


def _asks_back(text: str) -> bool:
    return text.rstrip().endswith("?")


def _assistant(messages: Any) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "assistant"]


def _by_kind(told: Sequence[Told], verdicts: Sequence[Verdict]) -> list[str]:
    counts: Counter[tuple[str, bool, Verdict]] = Counter(
        (item.kind, item.same, verdict) for item, verdict in zip(told, verdicts, strict=True)
    )
    kinds = sorted({(kind, same) for kind, same, _ in counts})
    return [
        f"{kind} (says {'the same' if same else 'something else'}): "
        + ", ".join(f"{verdict} {counts[kind, same, verdict]}" for verdict in Verdict)
        for kind, same in kinds
    ]


def _share(count: int, total: int) -> str:
    low, high = wilson(count, total)
    return f"{count} of {total} = {count / max(1, total):.1%} [{low:.1%}, {high:.1%}]"
