"""Rendering equals transformers' apply_chat_template for the forms that models use, and refuses well."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from ferry_runtime.errors import ChatTemplateFailed, InvalidRequest, ModelPreparationError
from ferry_runtime.model_files import chat_templates
from ferry_runtime.text.chat import ChatTemplate

from .conftest import _llama

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

# The form of each family's template, with the Jinja features that it uses, in our own words.
TEMPLATES = {
    "chatml": (
        "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "instruction brackets, strict alternation": (
        "{{ bos_token }}{% for m in messages %}"
        "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Roles must alternate user/assistant.') }}{% endif %}"
        "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'].strip() + ' [/INST]' }}"
        "{% else %}{{ ' ' + m['content'].strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
    ),
    "system taken off the list, namespace, set": (
        "{%- set ns = namespace(system='You help.', seen=0) -%}\n"
        "{%- for m in messages -%}\n"
        "    {%- if m.role == 'system' -%}\n"
        "        {%- set ns.system = m.content | trim -%}\n"
        "    {%- endif -%}\n"
        "{%- endfor -%}\n"
        "{{- bos_token + '<|header|>system<|end|>\n\n' + ns.system + '<|eot|>' -}}\n"
        "{%- for m in messages if m.role != 'system' %}\n"
        "    {%- set ns.seen = ns.seen + 1 %}\n"
        "    {{- '<|header|>' + m['role'] + '<|end|>\n\n' + m['content'] | trim + '<|eot|>' }}\n"
        "{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n"
        "    {{- '<|header|>assistant<|end|>\n\n' }}\n"
        "{%- endif %}\n"
    ),
    "turns with model as the assistant's name": (
        "{{ bos_token }}{% for m in messages %}"
        "{% set role = 'model' if m['role'] == 'assistant' else m['role'] %}"
        "{{ '<start_of_turn>' + role + '\n' + m['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
    ),
    "tools as JSON, macro, loop controls": (
        "{%- macro describe(tool) -%}{{ tool | tojson }}{%- endmacro -%}\n"
        "{%- if tools %}\n"
        "    {{- '<tools>\n' }}\n"
        "    {%- for tool in tools %}\n"
        "        {{- describe(tool) }}\n"
        "        {%- if not loop.last %}{{ '\n' }}{% endif %}\n"
        "    {%- endfor %}\n"
        "    {{- '</tools>\n' }}\n"
        "{%- endif %}\n"
        "{%- for m in messages %}\n"
        "    {%- if not m.content %}{% continue %}{% endif %}\n"
        "    {{- m.role ~ ': ' ~ m.content ~ '\n' }}\n"
        "{%- endfor %}\n"
        "{{- tools | tojson(indent=2) if tools else '' }}"
    ),
    "thinking is cut from earlier answers": (
        "{% for m in messages %}{% set content = m.content %}"
        "{% if m.role == 'assistant' and '</think>' in content %}"
        "{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}"
        "{{ '<' ~ m.role ~ '>' ~ content }}"
        "{% if m.reasoning_content is defined and loop.last %}"
        "{{ '(' ~ m.reasoning_content ~ ')' }}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}<assistant>"
        "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>{% endif %}"
        "{% endif %}"
    ),
    "generation block and today's date": (
        "{{ 'Today: ' ~ strftime_now('%d %b %Y') }}\n"
        "{% for m in messages %}{% if m.role == 'assistant' %}"
        "{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}"
        "{% else %}{{ m.content }}{% endif %}\n{% endfor %}"
    ),
    "dict, items, break, html": (
        "{% set names = dict(user='U', assistant='A', system='S') %}"
        "{% for m in messages %}{% if loop.index > 3 %}{% break %}{% endif %}"
        "{{ names[m.role] }}: {{ m.content }} <b>&amp;</b> {{ m.content | tojson }}\n{% endfor %}"
        "{% for key, value in names.items() %}{{ key }}={{ value }};{% endfor %}"
    ),
}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "depart",
            "parameters": {"type": "object", "properties": {"wann <>&": {"é": 1}}},
        },
    }
]
CONVERSATIONS = {
    "one question": [{"role": "user", "content": "Hello, <wörld> & 'you' \"too\""}],
    "turns": [
        {"role": "user", "content": " first "},
        {"role": "assistant", "content": "<think>hm</think>\nsecond"},
        {"role": "user", "content": "third\n"},
    ],
    "system first": [
        {"role": "system", "content": "Be brief. "},
        {"role": "user", "content": "first"},
    ],
    "nulls and reasoning": [
        {"role": "user", "content": "first", "name": None, "tool_calls": None},
        {"role": "assistant", "content": "second", "reasoning": "because", "refusal": None},
    ],
}


@pytest.fixture(scope="module")
def reference() -> PreTrainedTokenizerFast:
    tokenizer = _llama()
    assert dict(tokenizer.special_tokens_map) == SPECIAL
    return tokenizer


def _theirs(reference: Any, template: Any, messages: list[dict[str, Any]], **options: Any) -> str | None:
    reference.chat_template = template
    try:
        return reference.apply_chat_template(messages, tokenize=False, **options)
    except Exception as error:
        if type(error).__name__ == "TemplateError":
            return None
        raise


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("form", TEMPLATES)
@pytest.mark.parametrize(
    "options",
    [
        {"add_generation_prompt": True},
        {"add_generation_prompt": False},
        {"add_generation_prompt": True, "tools": TOOLS},
        {"add_generation_prompt": True, "variables": {"enable_thinking": False}},
    ],
    ids=["prompt", "no prompt", "tools", "variables"],
)
def test_rendering_equals_that_of_transformers(
    reference: Any, form: str, conversation: str, options: dict[str, Any]
) -> None:
    messages = CONVERSATIONS[conversation]
    theirs = {key: value for key, value in options.items() if key != "variables"} | options.get(
        "variables", {}
    )
    expected = _theirs(reference, TEMPLATES[form], messages, **theirs)
    ours = ChatTemplate({"default": TEMPLATES[form]}, SPECIAL)

    if expected is None:
        with pytest.raises(InvalidRequest, match="refuses these messages"):
            ours.render(messages, **options)
    else:
        assert ours.render(messages, **options) == expected


@pytest.mark.parametrize("form", [form for form in TEMPLATES if "html" not in form])
def test_continuing_the_final_message_equals_that_of_transformers(reference: Any, form: str) -> None:
    messages = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "one, two"}]
    expected = _theirs(
        reference, TEMPLATES[form], messages, continue_final_message=True, add_generation_prompt=False
    )

    rendered = ChatTemplate({"default": TEMPLATES[form]}, SPECIAL).render(
        messages, continue_final_message=True
    )

    assert rendered == expected
    assert rendered.endswith("one, two")


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["no tools", "tools"])
def test_named_templates_are_chosen_as_transformers_does(reference: Any, tools: Any) -> None:
    named = {"default": TEMPLATES["chatml"], "tool_use": TEMPLATES["tools as JSON, macro, loop controls"]}
    messages = CONVERSATIONS["one question"]

    assert ChatTemplate(named, SPECIAL).render(messages, tools=tools) == _theirs(
        reference, named, messages, tools=tools, add_generation_prompt=True
    )


def test_the_templates_own_refusal_is_the_clients_mistake() -> None:
    template = ChatTemplate({"default": TEMPLATES["instruction brackets, strict alternation"]}, SPECIAL)

    with pytest.raises(InvalidRequest, match="must alternate") as refusal:
        template.render([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    assert refusal.value.param == "messages"


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("{{ messages[0].content + 1 }}", id="type"),
        pytest.param("{{ messages[7].content }}", id="index"),
        pytest.param("{{ nothing.at.all }}", id="undefined"),
        pytest.param("{% for i in range(10 ** 9) %}{% endfor %}", id="endless"),
        pytest.param("{{ ''.__class__.__mro__ }}{{ messages.append(1) }}", id="sandbox"),
        pytest.param("{{ namespace(__class__=1) }}", id="private names"),
    ],
)
def test_a_broken_template_is_not_the_clients_mistake(broken: str) -> None:
    template = ChatTemplate({"default": broken}, SPECIAL)

    with pytest.raises(ChatTemplateFailed) as failure:
        template.render([{"role": "user", "content": "secret words"}])
    assert "secret" not in str(failure.value)


def test_a_template_that_is_not_jinja_is_refused_at_load() -> None:
    with pytest.raises(ModelPreparationError, match="not valid Jinja"):
        ChatTemplate({"default": "{% if %}"}, SPECIAL)


def test_an_empty_conversation_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="at least one message"):
        ChatTemplate({"default": TEMPLATES["chatml"]}, SPECIAL).render([])


PARTS = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]


def test_parts_become_lines_for_a_template_that_reads_text() -> None:
    template = ChatTemplate({"default": TEMPLATES["chatml"]}, SPECIAL)

    assert "user\none\ntwo<|im_end|>" in template.render([{"role": "user", "content": PARTS}])


@pytest.mark.parametrize("content", [PARTS, "onetwo"], ids=["parts", "text"])
def test_a_template_that_reads_parts_gets_parts(content: object) -> None:
    source = "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}"
    template = ChatTemplate({"default": source}, SPECIAL)

    assert template.render([{"role": "user", "content": content}]) == "onetwo"


def test_messages_are_not_changed() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "name": None}]
    before = json.dumps(messages)

    ChatTemplate({"default": TEMPLATES["chatml"]}, SPECIAL).render(messages, continue_final_message=True)

    assert json.dumps(messages) == before


def test_the_date_is_todays() -> None:
    rendered = ChatTemplate({"default": "{{ strftime_now('%Y') }}"}, {}).render([{"role": "user"}])

    assert rendered == str(datetime.now().year)  # noqa: DTZ005


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, {}, id="base model"),
        pytest.param({"chat_template.jinja": "A"}, {"default": "A"}, id="file"),
        pytest.param(
            {"chat_template.jinja": "A", "additional_chat_templates/tool_use.jinja": "B"},
            {"default": "A", "tool_use": "B"},
            id="named files",
        ),
        pytest.param({"tokenizer_config.json": {"chat_template": "A"}}, {"default": "A"}, id="string"),
        pytest.param(
            {"tokenizer_config.json": {"chat_template": [{"name": "rag", "template": "A"}]}},
            {"rag": "A"},
            id="named list",
        ),
        pytest.param({"chat_template.json": {"chat_template": "A"}}, {"default": "A"}, id="older file"),
        pytest.param(
            {"chat_template.jinja": "A", "tokenizer_config.json": {"chat_template": "B"}},
            {"default": "A"},
            id="the file wins",
        ),
    ],
)
def test_templates_are_found_wherever_models_keep_them(
    tmp_path: Path, files: dict[str, Any], expected: dict[str, str]
) -> None:
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    assert chat_templates(tmp_path) == expected


@pytest.mark.parametrize("variables", [{"self": 1}, {"bos_token": 5}, {"thinking": "text"}])
def test_variables_that_break_the_template_are_the_clients_mistake(variables: dict[str, Any]) -> None:
    source = "{{ bos_token + messages[0].content }}{{ (thinking | default(0)) + 1 }}"
    template = ChatTemplate({"default": source}, SPECIAL)
    messages = [{"role": "user", "content": "secret words"}]
    assert template.render(messages) == "<s>secret words1"

    with pytest.raises(InvalidRequest) as failure:
        template.render(messages, variables=variables)
    assert failure.value.param == "chat_template_kwargs"
    assert "secret" not in str(failure.value)
