"""A model's text side as one object: what the API needs to turn a body into token ids."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferry_runtime.errors import InvalidRequest
from ferry_runtime.model_files import chat_templates, read_json
from ferry_runtime.text.chat import ChatTemplate, Message
from ferry_runtime.text.tokenizer import OFFLOAD_CHARACTERS, Tokenizer


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt as the model reads it. ``text`` is its rendered form."""

    text: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TextModel:
    """``vocab_size`` is the output layer's rows (config.json), the bound for every token id;
    ``context_length`` the model's own, None when its config does not say."""

    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    eos_token_ids: tuple[int, ...]
    vocab_size: int
    context_length: int | None
    family: str = "unknown"  # the config's model_type

    @classmethod
    def load(cls, directory: Path) -> TextModel:
        """Reads a prepared directory. Raises ModelPreparationError with a sentence."""
        tokenizer = Tokenizer.from_directory(directory)
        templates = chat_templates(directory)
        config = read_json(directory / "config.json")
        text_config = config.get("text_config") or config
        return cls(
            tokenizer=tokenizer,
            chat_template=ChatTemplate(templates, tokenizer.special_tokens) if templates else None,
            eos_token_ids=_eos_ids(directory, config),
            vocab_size=int(text_config.get("vocab_size") or tokenizer.vocab_size),
            context_length=_context_length(text_config),
            family=str(config.get("model_type", "unknown")),
        )

    async def encode(self, text: str, *, add_special_tokens: bool = True) -> EncodedPrompt:
        """A plain prompt. Raises InvalidRequest on text that is not valid Unicode."""
        ids = await self.tokenizer.encode_off_loop(text, add_special_tokens=add_special_tokens)
        return EncodedPrompt(text, ids)

    async def encode_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
    ) -> EncodedPrompt:
        """A conversation, through the model's chat template; see `ChatTemplate.render`.

        Raises InvalidRequest when the model has no template.
        """
        template = self.chat_template
        if template is None:
            raise InvalidRequest(
                "This model has no chat template, so it cannot answer messages: "
                "send a prompt to /v1/completions or /generate instead.",
                param="messages",
            )

        def work() -> EncodedPrompt:
            text = template.render(
                messages,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message,
                variables=variables,
            )
            return EncodedPrompt(text, self.tokenizer.encode(text, add_special_tokens=False))

        if _characters(messages) <= OFFLOAD_CHARACTERS:
            return work()
        return await asyncio.to_thread(work)


def _characters(messages: Sequence[Message]) -> int:
    """About how much text there is: enough to choose between the loop and a thread."""
    total = 0
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            total += len(content)
        elif isinstance(content, list):
            total += sum(len(str(part.get("text", ""))) for part in content)
        total += 16
    return total


def _eos_ids(directory: Path, config: Mapping[str, Any]) -> tuple[int, ...]:
    """As transformers' generate(): generation_config.json decides, config.json fills in."""
    value = read_json(directory / "generation_config.json").get("eos_token_id")
    if value is None:
        value = config.get("eos_token_id")
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (int(value),)


def _context_length(config: Mapping[str, Any]) -> int | None:
    """Families name it differently: Llama and most, GPT-2, older ports."""
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"):
        value = config.get(name)
        if isinstance(value, int) and value > 0:
            return value
    return None
