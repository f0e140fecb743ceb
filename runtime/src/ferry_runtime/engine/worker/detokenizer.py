"""Ids to text while they are generated, never cutting a character.

The text that comes out continues the prompt: ``decode(prompt) + text == decode(prompt + ids)``.
So a SentencePiece-like decoder's rule for the first token (its leading space is dropped) applies
only where the prompt has no text of its own. Where a prompt ends inside a character, the answer
begins with that whole character.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import tokenizers

    from ferry_runtime.engine.worker.vocabulary import PieceRules, Vocabulary

_REPLACEMENT = "\ufffd"
_LONGEST_CHARACTER = 4  # bytes, in UTF-8
_CONTEXT_TOKENS = 6


class Detokenizer(Protocol):
    @property
    def pending(self) -> bool:
        """The latest tokens end inside a character."""
        ...

    def feed(self, token_id: int) -> str:
        """The text that this token completes, possibly none."""
        ...

    def flush(self) -> str:
        """The end: U+FFFD for what never became a character, as decoding the whole would give."""
        ...


class ByteDecoder:
    """For byte-level BPE: the text is the UTF-8 of all tokens' bytes."""

    def __init__(self, vocabulary: Vocabulary, prompt: Sequence[int], *, skip_special: bool) -> None:
        self._vocabulary = vocabulary
        self._skip_special = skip_special
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for token_id in _visible_tail(vocabulary, prompt, _LONGEST_CHARACTER, skip_special=skip_special):
            self.feed(token_id)

    @property
    def pending(self) -> bool:
        return bool(self._decoder.getstate()[0])

    def feed(self, token_id: int) -> str:
        if self._skip_special and self._vocabulary.is_special(token_id):
            return ""
        return self._decoder.decode(self._vocabulary.raw(token_id))

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


class PieceDecoder:
    """For SentencePiece-like vocabularies with byte fallback.

    A run of byte tokens becomes text as soon as it is whole characters. One that cannot become
    any gives U+FFFD for each of its bytes, as the tokenizers library's ByteFallback does.
    """

    def __init__(
        self, vocabulary: Vocabulary, rules: PieceRules, prompt: Sequence[int], *, skip_special: bool
    ) -> None:
        self._vocabulary = vocabulary
        self._skip_special = skip_special
        self._run = bytearray()
        self._strip = 0
        if not _visible_tail(vocabulary, prompt, 1, skip_special=skip_special):
            self._strip = rules.strip_leading
        for token_id in _visible_tail(vocabulary, prompt, _LONGEST_CHARACTER, skip_special=skip_special):
            self.feed(token_id)

    @property
    def pending(self) -> bool:
        return bool(self._run)

    def feed(self, token_id: int) -> str:
        if self._skip_special and self._vocabulary.is_special(token_id):
            return ""
        value = self._vocabulary.byte(token_id)
        if value is None:
            return self._stripped(self.flush() + self._vocabulary.text(token_id))
        self._run.append(value)
        return self._stripped(self._whole_characters())

    def flush(self) -> str:
        text = _REPLACEMENT * len(self._run)
        self._run.clear()
        return text

    def _whole_characters(self) -> str:
        try:
            text = self._run.decode()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data":
                return ""
            return self.flush()
        self._run.clear()
        return text

    def _stripped(self, text: str) -> str:
        while self._strip and text:
            if not text.startswith(" "):
                self._strip = 0
                break
            text, self._strip = text[1:], self._strip - 1
        return text


class WindowDecoder:
    """For every other decoder: decode a short window with and without the new token.

    Text that ends in U+FFFD waits for the next token, since it may be half a character.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, prompt: Sequence[int], *, skip_special: bool) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._window = list(prompt[-_CONTEXT_TOKENS:])
        self._known = len(self._window)  # tokens whose text is out

    @property
    def pending(self) -> bool:
        return self._known < len(self._window)

    def feed(self, token_id: int) -> str:
        self._window.append(token_id)
        text = self._new_text()
        if text.endswith(_REPLACEMENT):
            return ""
        self._advance()
        return text

    def flush(self) -> str:
        text = self._new_text()
        self._advance()
        return text

    def _new_text(self) -> str:
        before, after = self._decode(self._window[: self._known]), self._decode(self._window)
        return after[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=self._skip_special)

    def _advance(self) -> None:
        self._window = self._window[-_CONTEXT_TOKENS:]
        self._known = len(self._window)


def _visible_tail(
    vocabulary: Vocabulary, prompt: Sequence[int], count: int, *, skip_special: bool
) -> list[int]:
    """The last ``count`` tokens of ``prompt`` that have a text."""
    tail: list[int] = []
    for token_id in reversed(prompt):
        if len(tail) == count:
            break
        if vocabulary.raw(token_id) and not (skip_special and vocabulary.is_special(token_id)):
            tail.append(token_id)
    return tail[::-1]
