"""A stored answer: what it says, whose it is, until when it may be served."""

from __future__ import annotations

import msgspec

from ferry_runtime.engine.protocol import FinishReason, TokenLogprob

ENTRY_VERSION = 1


class CachedChoice(msgspec.Struct, frozen=True, array_like=True):
    """One finished choice, whole."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stop_reason: str | int | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] | None = None
    cached_prompt_tokens: int = 0


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Times are Unix seconds; expiry is absolute and travels with the entry.

    ``owner`` is the tenant whose request made it, whatever the scope; ``partition`` is empty for
    an entry that only the exact tier may serve. ``vector`` is the question's unit embedding as
    little-endian float16.
    """

    version: int = ENTRY_VERSION
    id: str
    exact: bytes
    owner: str
    model: str
    created: float
    expires: float
    choices: tuple[CachedChoice, ...]
    cost_seconds: float = 0.0  # what generating it took: what a hit saves
    partition: bytes = b""
    question: str = ""
    embedder: str = ""
    vector: bytes = b""

    @property
    def completion_tokens(self) -> int:
        return sum(len(choice.token_ids) for choice in self.choices)

    @property
    def finished_by_itself(self) -> bool:
        """No choice was cut off by its token limit."""
        return all(choice.finish_reason is FinishReason.STOP for choice in self.choices)

    def expired(self, now: float) -> bool:
        return now >= self.expires


class EntryDecodeError(ValueError):
    """The bytes are no entry of this version."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


def encode(entry: Entry) -> bytes:
    return _encoder.encode(entry)


def decode(data: bytes) -> Entry:
    """Raises EntryDecodeError for foreign, malformed or other-version bytes."""
    try:
        entry = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EntryDecodeError("not an entry") from error
    if entry.version != ENTRY_VERSION or not entry.choices:
        raise EntryDecodeError("an entry of another version")
    return entry


def decode_as(entry_id: str, body: bytes | None, now: float) -> Entry | None:
    """None for what is missing, unreadable, another entry or expired."""
    try:
        entry = decode(body) if body is not None else None
    except EntryDecodeError:
        return None
    return entry if entry is not None and entry.id == entry_id and not entry.expired(now) else None
