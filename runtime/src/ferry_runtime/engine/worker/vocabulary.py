"""What each token id stands for: exact bytes, text, special or not, and how ids become text.

Kinds of decoders are told apart by tokenizer.json's own ``decoder`` object (see the tokenizers
library's ``decoders``). For the two kinds that nearly all models use, a token's bytes are known
exactly, so text can be made byte by byte; for any other the library's decoder is asked.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import tokenizers

from ferry_runtime.engine.worker.detokenizer import (
    ByteDecoder,
    Detokenizer,
    PieceDecoder,
    WindowDecoder,
)

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE_PIECE = "\u2581"  # SentencePiece writes a space so


def byte_level_alphabet() -> dict[str, int]:
    """GPT-2's map from the characters of byte-level tokens to bytes: printable Latin-1 stands for
    itself, the other bytes for the characters from U+0100 on, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {
        **{chr(byte): byte for byte in printable},
        **{chr(0x100 + rank): byte for rank, byte in enumerate(others)},
    }


_ALPHABET = byte_level_alphabet()


@dataclass(frozen=True, slots=True)
class PieceRules:
    """A SentencePiece-like decoder: ``▁`` is a space, ``<0xE2>`` may be a byte, and
    ``strip_leading`` spaces are dropped where the whole text begins."""

    byte_fallback: bool
    strip_leading: int


class _TokenizerFile(msgspec.Struct):
    decoder: dict[str, Any] | None = None


class Vocabulary:
    """Immutable. Ids that the tokenizer does not know stand for nothing, as in its decode()."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, decoder: dict[str, Any] | None) -> None:
        self._tokenizer = tokenizer
        self._special = frozenset(
            token_id for token_id, added in tokenizer.get_added_tokens_decoder().items() if added.special
        )
        self._byte_level = _is_byte_level(decoder)
        self._pieces = _piece_rules(decoder)
        self.raw = functools.cache(self._raw)

    @classmethod
    def from_directory(cls, directory: Path) -> Vocabulary:
        data = (directory / "tokenizer.json").read_bytes()
        decoder = msgspec.json.decode(data, type=_TokenizerFile).decoder
        return cls(tokenizers.Tokenizer.from_buffer(data), decoder)

    def is_special(self, token_id: int) -> bool:
        return token_id in self._special

    def text(self, token_id: int) -> str:
        """The token by itself; U+FFFD where it is not whole characters."""
        return self.raw(token_id).decode(errors="replace")

    def byte(self, token_id: int) -> int | None:
        """The value of a byte-fallback token; None for every other token."""
        token = self._tokenizer.id_to_token(token_id)
        match = _BYTE_TOKEN.fullmatch(token) if token is not None else None
        return int(match[1], 16) if match else None

    def detokenizer(self, prompt: Sequence[int], *, skip_special: bool) -> Detokenizer:
        """For the tokens that follow ``prompt``."""
        if self._byte_level:
            return ByteDecoder(self, prompt, skip_special=skip_special)
        if self._pieces is not None:
            return PieceDecoder(self, self._pieces, prompt, skip_special=skip_special)
        return WindowDecoder(self._tokenizer, prompt, skip_special=skip_special)

    def _raw(self, token_id: int) -> bytes:
        token = self._tokenizer.id_to_token(token_id)
        if token is None:
            return b""
        if self._byte_level:
            # As the library does: a token with any other character is not byte-level at all.
            values = [_ALPHABET.get(character) for character in token]
            known = [value for value in values if value is not None]
            return bytes(known) if len(known) == len(values) else token.encode()
        if self._pieces is not None:
            value = self.byte(token_id) if self._pieces.byte_fallback else None
            return bytes([value]) if value is not None else token.replace(_SPACE_PIECE, " ").encode()
        return self._tokenizer.decode([token_id], skip_special_tokens=False).encode()


def _steps(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is None:
        return []
    return list(decoder["decoders"]) if decoder["type"] == "Sequence" else [decoder]


def _is_byte_level(decoder: dict[str, Any] | None) -> bool:
    return [step["type"] for step in _steps(decoder)] == ["ByteLevel"]


def _piece_rules(decoder: dict[str, Any] | None) -> PieceRules | None:
    steps = _steps(decoder)
    kinds = [step["type"] for step in steps]
    expected = ["Replace", "ByteFallback", "Fuse"]
    if kinds not in (expected, [*expected, "Strip"]):
        return None
    replace = {"pattern": {"String": _SPACE_PIECE}, "content": " "}
    no_strip: dict[str, Any] = {"content": " ", "start": 0, "stop": 0}
    strip = steps[3] if len(steps) == 4 else no_strip
    if any(steps[0][key] != value for key, value in replace.items()):
        return None
    if (strip["content"], strip["stop"]) != (" ", 0):
        return None
    return PieceRules(byte_fallback=True, strip_leading=int(strip["start"]))
