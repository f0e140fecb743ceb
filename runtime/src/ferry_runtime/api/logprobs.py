"""Log-probabilities in the shapes of OpenAI's two routes. Every number that gets out is finite."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence

from ferry_runtime.api.schemas import answers
from ferry_runtime.engine.protocol import Alternative, TokenLogprob


def chat_logprobs(entries: Iterable[TokenLogprob]) -> answers.ChatLogprobs:
    return answers.ChatLogprobs([_chat_entry(entry) for entry in entries])


def _chat_entry(entry: TokenLogprob) -> answers.TokenLogprob:
    token = entry.token
    top = [answers.TopLogprob(item.text, item.logprob, list(item.raw)) for item in entry.top]
    return answers.TokenLogprob(token.text, token.logprob, list(token.raw), top)


class CompletionLogprobsBuilder:
    """Builds the parallel lists, piece by piece for streams: offsets go on where they stopped."""

    def __init__(self) -> None:
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def prompt(self, entries: Sequence[TokenLogprob]) -> answers.CompletionLogprobs:
        """Of an echoed prompt: nothing precedes its first token, so that has no log-probability."""
        whole = self.generated(entries)
        token_logprobs: list[float | None] = [None, *whole.token_logprobs[1:]]
        return answers.CompletionLogprobs(
            whole.text_offset, token_logprobs, whole.tokens, [None, *whole.top_logprobs[1:]]
        )

    def generated(self, entries: Sequence[TokenLogprob]) -> answers.CompletionLogprobs:
        offsets: list[int] = []
        for entry in entries:
            offsets.append(self._offset)
            # A character that spans tokens begins where its first token does.
            self._offset += len(self._decoder.decode(entry.token.raw))
        return answers.CompletionLogprobs(
            offsets,
            [entry.token.logprob for entry in entries],
            [_name(entry.token) for entry in entries],
            [_top(entry) for entry in entries],
        )


def joined(
    first: answers.CompletionLogprobs, second: answers.CompletionLogprobs
) -> answers.CompletionLogprobs:
    return answers.CompletionLogprobs(
        first.text_offset + second.text_offset,
        first.token_logprobs + second.token_logprobs,
        first.tokens + second.tokens,
        first.top_logprobs + second.top_logprobs,
    )


def _top(entry: TokenLogprob) -> dict[str, float]:
    """The alternatives and the chosen token, which may be none of them."""
    top = {_name(item): item.logprob for item in entry.top}
    top.setdefault(_name(entry.token), entry.token.logprob)
    return top


def _name(token: Alternative) -> str:
    """The token's text, or OpenAI's ``bytes:\\\\xf0\\\\x9f`` where it is no whole text: two different
    tokens must not share a name."""
    try:
        return token.raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.raw)
