"""Reading a Hugging Face model directory: the small files that several parts look into."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ferry_runtime.errors import ModelPreparationError

# The order of transformers' PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES; templates get these.
SPECIAL_TOKEN_NAMES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


def read_json(path: Path) -> dict[str, Any]:
    """A model directory's JSON object; an absent file is an empty one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelPreparationError(f"{path} cannot be read as JSON.") from error
    if not isinstance(content, dict):
        raise ModelPreparationError(f"{path} must hold a JSON object.")
    return content


def special_tokens(directory: Path) -> dict[str, str]:
    """The named special tokens of tokenizer_config.json (or special_tokens_map.json), as text."""
    config = read_json(directory / "tokenizer_config.json")
    fallback = read_json(directory / "special_tokens_map.json")
    found: dict[str, str] = {}
    for name in SPECIAL_TOKEN_NAMES:
        value = config.get(name, fallback.get(name))
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            found[name] = value
    return found


def chat_templates(directory: Path) -> dict[str, str]:
    """Every chat template that a model directory carries, by name; empty for a base model.

    Looked for where transformers looks: chat_template.jinja, additional_chat_templates/*.jinja,
    then the older places, chat_template.json and tokenizer_config.json (a string or a named list).
    """
    found: dict[str, str] = {}
    main = directory / "chat_template.jinja"
    if main.is_file():
        found["default"] = main.read_text(encoding="utf-8")
    for path in sorted((directory / "additional_chat_templates").glob("*.jinja")):
        found[path.stem] = path.read_text(encoding="utf-8")
    if found:
        return found
    for file in ("chat_template.json", "tokenizer_config.json"):
        value = read_json(directory / file).get("chat_template")
        if isinstance(value, str):
            return {"default": value}
        if isinstance(value, list):
            return {str(entry["name"]): str(entry["template"]) for entry in value}
        if isinstance(value, dict):
            return {str(name): str(source) for name, source in value.items()}
    return found
