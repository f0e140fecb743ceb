"""The shapes of chat and text completions, whole and streamed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType

from ferry_runtime.api.answers import Choice
from ferry_runtime.api.logprobs import CompletionLogprobsBuilder, chat_logprobs, joined
from ferry_runtime.api.replies import event
from ferry_runtime.api.schemas import answers
from ferry_runtime.api.schemas.answers import Usage
from ferry_runtime.api.version import VERSION
from ferry_runtime.engine.protocol import Delta, TokenLogprob
from ferry_runtime.generation import ChoiceDelta

FINGERPRINT = f"ferry-{VERSION}"


class ChatRenderer:
    """https://platform.openai.com/docs/api-reference/chat/object and …/chat-streaming."""

    def __init__(self, answer_id: str, model: str, *, logprobs: bool, include_usage: bool) -> None:
        self._id = answer_id
        self._model = model
        self._created = int(time.time())
        self._logprobs = logprobs
        self._no_usage: UnsetType | None = None if include_usage else UNSET

    def whole(self, choices: Sequence[Choice], usage: Usage) -> answers.ChatCompletion:
        return answers.ChatCompletion(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=[self._choice(index, choice) for index, choice in enumerate(choices)],
            usage=usage,
            system_fingerprint=FINGERPRINT,
        )

    def opening(self, choices: int, /) -> bytes:
        start = answers.ChatDelta(role="assistant", content="")
        return b"".join(self._chunk(answers.ChatChunkChoice(index, start)) for index in range(choices))

    def delta(self, item: ChoiceDelta) -> bytes:
        delta, sent = item.delta, b""
        logprobs = chat_logprobs(delta.logprobs) if self._logprobs and delta.logprobs else None
        if delta.text or logprobs:
            content = answers.ChatDelta(content=delta.text)
            sent = self._chunk(answers.ChatChunkChoice(item.index, content, logprobs))
        if delta.finish_reason is not None:
            end = answers.ChatChunkChoice(
                item.index, answers.ChatDelta(), None, delta.finish_reason.value, delta.stop_reason
            )
            sent += self._chunk(end)
        return sent

    def usage(self, usage: Usage) -> bytes:
        return self._event([], usage)

    def _choice(self, index: int, choice: Choice) -> answers.ChatChoice:
        return answers.ChatChoice(
            index,
            answers.ChatMessage(choice.text),
            str(choice.finish_reason),
            chat_logprobs(choice.logprobs) if self._logprobs else None,
            choice.stop_reason,
        )

    def _chunk(self, choice: answers.ChatChunkChoice) -> bytes:
        return self._event([choice], self._no_usage)

    def _event(self, choices: list[answers.ChatChunkChoice], usage: Usage | UnsetType | None) -> bytes:
        return event(
            answers.ChatChunk(
                id=self._id,
                created=self._created,
                model=self._model,
                choices=choices,
                system_fingerprint=FINGERPRINT,
                usage=usage,
            )
        )


class CompletionRenderer:
    """https://platform.openai.com/docs/api-reference/completions/object.

    ``echo`` maps a choice's index to the prompt's text that its own text starts with. With
    ``only_echo`` the generated part is left out (max_tokens 0).
    """

    def __init__(
        self,
        answer_id: str,
        model: str,
        *,
        logprobs: bool,
        include_usage: bool,
        echo: Mapping[int, str] | None = None,
        only_echo: bool = False,
    ) -> None:
        self._id = answer_id
        self._model = model
        self._created = int(time.time())
        self._logprobs = logprobs
        self._no_usage: UnsetType | None = None if include_usage else UNSET
        self._echo = dict(echo or {})
        self._only_echo = only_echo
        self._builders: dict[int, CompletionLogprobsBuilder] = {}

    def whole(self, choices: Sequence[Choice], usage: Usage) -> answers.Completion:
        return answers.Completion(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=[self._choice(index, choice) for index, choice in enumerate(choices)],
            usage=self._counted(usage),
            system_fingerprint=FINGERPRINT,
        )

    def opening(self, _choices: int, /) -> bytes:
        """Text completions have no role to announce."""
        return b""

    def delta(self, item: ChoiceDelta) -> bytes:
        delta = item.delta
        text = self._echo.pop(item.index, "") + ("" if self._only_echo else delta.text)
        logprobs = self._part(item.index, delta)
        if not (text or logprobs or delta.finish_reason):
            return b""
        finish = delta.finish_reason.value if delta.finish_reason else None
        choice = answers.CompletionChoice(item.index, text, logprobs, finish, delta.stop_reason)
        return self._event([choice], self._no_usage)

    def usage(self, usage: Usage) -> bytes:
        return self._event([], self._counted(usage))

    def _counted(self, usage: Usage) -> Usage:
        if not self._only_echo:
            return usage
        return Usage(usage.prompt_tokens, 0, usage.prompt_tokens, usage.prompt_tokens_details)

    def _part(self, index: int, delta: Delta) -> answers.CompletionLogprobs | None:
        if not self._logprobs or not (delta.logprobs or delta.prompt_logprobs):
            return None
        return self._shape(index, delta.prompt_logprobs, delta.logprobs)

    def _shape(
        self, index: int, prompt: Sequence[TokenLogprob] | None, generated: Sequence[TokenLogprob]
    ) -> answers.CompletionLogprobs:
        builder = self._builders.setdefault(index, CompletionLogprobsBuilder())
        shown = [] if self._only_echo else generated
        if not prompt:
            return builder.generated(shown)
        return joined(builder.prompt(prompt), builder.generated(shown))

    def _choice(self, index: int, choice: Choice) -> answers.CompletionChoice:
        text = self._echo.get(index, "") + ("" if self._only_echo else choice.text)
        logprobs = self._shape(index, choice.prompt_logprobs, choice.logprobs) if self._logprobs else None
        return answers.CompletionChoice(index, text, logprobs, str(choice.finish_reason), choice.stop_reason)

    def _event(self, choices: list[answers.CompletionChoice], usage: Usage | UnsetType | None) -> bytes:
        return event(
            answers.CompletionChunk(
                id=self._id,
                created=self._created,
                model=self._model,
                choices=choices,
                system_fingerprint=FINGERPRINT,
                usage=usage,
            )
        )
