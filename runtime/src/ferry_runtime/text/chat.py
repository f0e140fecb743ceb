"""Chat templates: a conversation becomes the prompt that the model was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

from ferry_runtime.errors import ChatTemplateFailed, InvalidRequest, ModelPreparationError
from ferry_runtime.text.environment import RaisedByTemplate, template_environment

Message = Mapping[str, Any]

_PROBE = "ferry-probe"
_REASONING_NAMES = ("reasoning_content", "thinking", "reasoning")
_TAG = "<<ferry-continue>>"
_LONGEST_REASON = 300


class ChatTemplate:
    """A model's templates, compiled once. Rendering equals transformers' ``apply_chat_template``.

    ``templates`` maps names to Jinja sources; the usual model has only ``default``. A template
    that reads message content as text gets parts joined by newlines, one that only reads parts
    gets text as a part: found out by rendering a probe of each.
    """

    def __init__(self, templates: Mapping[str, str], special_tokens: Mapping[str, str]) -> None:
        """Raises ModelPreparationError when a template is not valid Jinja."""
        environment = template_environment()
        self._special_tokens = dict(special_tokens)
        self._compiled: dict[str, jinja2.Template] = {}
        for name, source in templates.items():
            try:
                self._compiled[name] = environment.from_string(source)
            except jinja2.TemplateSyntaxError as error:
                raise ModelPreparationError(
                    f"The model's chat template {name!r} is not valid Jinja (line {error.lineno})."
                ) from error
        if not self._compiled:
            raise ModelPreparationError("The model's chat template file is empty.")
        self._takes_text = self._probe(_PROBE)
        self._takes_parts = self._probe([{"type": "text", "text": _PROBE}])

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt's text, special tokens included.

        ``variables`` are further names for the template (OpenAI clients' chat_template_kwargs).
        Raises InvalidRequest when the template itself refuses the conversation, ChatTemplateFailed
        when it breaks.
        """
        if not messages:
            raise InvalidRequest("messages must hold at least one message.", param="messages")
        chat = [self._prepared(message) for message in messages]
        if continue_final_message:
            chat[-1] = _tagged(chat[-1])
        names = {**self._special_tokens, **(variables or {})}
        names.update(
            messages=chat,
            tools=None if tools is None else list(tools),
            documents=None,
            add_generation_prompt=add_generation_prompt and not continue_final_message,
        )
        try:
            text = self._render(self._choose(tools is not None), names)
        except ChatTemplateFailed as error:
            if not variables:
                raise
            raise InvalidRequest(
                "The model's chat template fails with these chat_template_kwargs.",
                param="chat_template_kwargs",
            ) from error
        return _cut_at_tag(text) if continue_final_message else text

    def _choose(self, with_tools: bool) -> jinja2.Template:
        if with_tools and "tool_use" in self._compiled:
            return self._compiled["tool_use"]
        if "default" in self._compiled:
            return self._compiled["default"]
        return next(iter(self._compiled.values()))

    def _render(self, template: jinja2.Template, names: Mapping[str, Any]) -> str:
        try:
            return template.render(**names)
        except RaisedByTemplate as error:
            reason = str(error)[:_LONGEST_REASON] or "no reason given"
            raise InvalidRequest(
                f"The model's chat template refuses these messages: {reason}", param="messages"
            ) from error
        except Exception as error:  # a template is the model author's program: anything may happen
            raise ChatTemplateFailed(
                "The model's chat template failed on this conversation; the reason is in the server's log."
            ) from error

    def _prepared(self, message: Message) -> dict[str, Any]:
        """Drop nulls (clients send unset fields so), alias reasoning, fit the content's form."""
        fields = {key: value for key, value in message.items() if value is not None}
        reasoning = next((fields[name] for name in _REASONING_NAMES if name in fields), None)
        if reasoning is not None:
            fields = {"thinking": reasoning, **fields, "reasoning_content": reasoning}
        content = fields.get("content")
        if isinstance(content, list) and not self._takes_parts:
            fields["content"] = "\n".join(str(part.get("text", "")) for part in content)
        elif isinstance(content, str) and not self._takes_text and self._takes_parts:
            fields["content"] = [{"type": "text", "text": content}]
        return fields

    def _probe(self, content: object) -> bool:
        names = {
            **self._special_tokens,
            "messages": [{"role": "user", "content": content}],
            "tools": None,
            "documents": None,
            "add_generation_prompt": True,
        }
        try:
            text = self._choose(with_tools=False).render(**names)
        except Exception:  # noqa: BLE001 (any failure is the answer no)
            return False
        # A part list printed as it stands shows its keys.
        return _PROBE in text and "'text'" not in text and '"text"' not in text


def _tagged(message: dict[str, Any]) -> dict[str, Any]:
    """Mark where the final message ends, so that what the template adds after it can be cut."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": content + _TAG}
    if isinstance(content, list) and content and isinstance(content[-1].get("text"), str):
        return {**message, "content": [*content[:-1], {**content[-1], "text": content[-1]["text"] + _TAG}]}
    raise InvalidRequest("There is no text in the final message to continue.", param="messages")


def _cut_at_tag(text: str) -> str:
    end = text.rfind(_TAG)
    if end < 0:
        raise InvalidRequest(
            "The model's chat template drops the final message, so it cannot be continued.",
            param="continue_final_message",
        )
    return text[:end]
