"""Which questions the semantic tier may touch: short English prose, as its embedder was trained on."""

from __future__ import annotations

import re
from enum import StrEnum

from ferry_runtime.cache.semantic.lexicon import FILLERS
from ferry_runtime.cache.semantic.words import read

MAX_CHARACTERS = 2_000  # more never fits the embedder's 256 word pieces; the embedder counts exactly


class Skip(StrEnum):
    """Why a question goes to the exact tier only; a metric label."""

    TOO_LONG = "too_long"
    NOT_ENGLISH = "not_english"
    CODE = "code"


_CODE = re.compile(
    r"```|[{};]\s*$|=>|==|!=|&&|\|\||</?\w+[^<>]*>|\w\(\)|\w\(\d|\b\w+\.\w+\(|\bdef \w+\(|#include|\\[a-z]+\{"
    r"|^\s*(import|from|SELECT|INSERT|UPDATE|CREATE) \w+|\$\(|^\s*[$#] \w+|::|/\w+/\w+/",
    re.MULTILINE,
)
# Frequent words of other languages in Latin script that English does not have.
_FOREIGN = """
der die das und ist nicht ein eine wie ich sie mit auf fur für von dem den zu le la les des est une que
qui dans pour pas vous je el los las por una como qué cómo dónde para con il della che per sono di da um
uma não você het een niet van voor jag och är att det hur kan vad jak się nie czy ne bir için na się
mi mein meine kann wo wann warum quel quelle quand où comment pourquoi cuando donde cuál perché dove
quando hoe waar wat waarom
"""
_OTHERS = frozenset(_FOREIGN.split()) - FILLERS


def skip_reason(question: str) -> Skip | None:
    if len(question) > MAX_CHARACTERS:
        return Skip.TOO_LONG
    if _CODE.search(question):
        return Skip.CODE
    return None if _english(question) else Skip.NOT_ENGLISH


def _english(text: str) -> bool:
    """ASCII letters nearly throughout, English function words, and few of other languages. Two words
    without any are too little to tell, so they stay out."""
    letters = [letter for letter in text if letter.isalpha()]
    if not letters or sum(letter.isascii() for letter in letters) < 0.95 * len(letters):
        return False
    tokens = read(text).tokens
    ours = sum(token in FILLERS for token in tokens)
    others = sum(token in _OTHERS for token in tokens)
    return ours >= max(1, 0.15 * len(tokens)) and others <= 0.34 * ours
