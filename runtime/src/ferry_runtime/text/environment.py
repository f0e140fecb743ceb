"""The Jinja environment of chat templates: what model authors write against.

Its names and switches are those that transformers documents for chat templates
(https://huggingface.co/docs/transformers/chat_templating): ``raise_exception``, ``strftime_now``,
a ``tojson`` that escapes no HTML, loop controls, and the ``generation`` block.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace


class RaisedByTemplate(jinja2.TemplateError):
    """The template called ``raise_exception``: the conversation is not one that it can express."""


class _GenerationBlock(Extension):
    """``{% generation %}…{% endgeneration %}`` marks answers for training; here it only renders."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own protocol: a plain class attribute)

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _DictFactory:
    """``dict(...)`` in templates, without the type object and all that hangs on it."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, keys: Iterable[Any], value: Any = None) -> dict[Any, Any]:
        return dict.fromkeys(keys, value)


class _SafeNamespace(Namespace):
    """``namespace(...)`` whose attributes cannot shadow Python's internals.

    The odd signature leaves ``self`` usable as a keyword, as Jinja's own class does.
    """

    def __init__(*args: Any, **kwargs: Any) -> None:
        instance, *rest = args
        values = dict(*rest, **kwargs)
        for name in values:
            _refuse_private(name)
        Namespace.__init__(instance, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError("a chat template may not store names that start with an underscore")


def _raise_exception(message: object = "") -> NoReturn:
    raise RaisedByTemplate(str(message))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)  # noqa: DTZ005 (templates expect the local date)


def template_environment() -> ImmutableSandboxedEnvironment:
    # Prompts are not HTML: escaping would change what the model reads.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, autoescape=False, extensions=[_GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals.update(
        raise_exception=_raise_exception,
        strftime_now=_strftime_now,
        dict=_DictFactory(),
        namespace=_SafeNamespace,
    )
    return environment
